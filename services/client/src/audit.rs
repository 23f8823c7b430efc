//! The audit of a cell: who has changed what, and who was refused.

use borough_proto::v1::audit_service_client::AuditServiceClient;
use borough_proto::v1::{
    AuditFilter, ListAuditChunksRequest, ListAuditChunksResponse, ListAuditRequest, ListAuditResponse,
    PageRequest,
};

use crate::call::{Client, rpc};
use crate::error::ClientError;

impl Client {
    /// One page of calls, the newest first. It may be empty although others follow: only an empty `next_page` is the
    /// end.
    ///
    /// # Errors
    /// As for every call.
    pub async fn audit_list_page(
        &self,
        filter: AuditFilter,
        page: PageRequest,
    ) -> Result<ListAuditResponse, ClientError> {
        let message = ListAuditRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            page: Some(page),
            filter: Some(filter),
        };
        self.call("ListAudit", message, rpc!(AuditServiceClient.list_audit)).await
    }

    /// Chunks of the chain after the number `after`, the oldest first; 0: from the oldest one that is kept. Without
    /// any, this is the end, and `behind` says whether newer calls are still to be sealed.
    ///
    /// # Errors
    /// As for every call.
    pub async fn audit_chunks(&self, after: u64) -> Result<ListAuditChunksResponse, ClientError> {
        let message =
            ListAuditChunksRequest { context: self.context_read(), cell: self.cell().to_owned(), after };
        self.call("ListAuditChunks", message, rpc!(AuditServiceClient.list_audit_chunks)).await
    }
}
