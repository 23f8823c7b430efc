//! Quotas: how much a user or a group may have admitted in a band, and how much is.

use borough_proto::v1::quota_service_client::QuotaServiceClient;
use borough_proto::v1::{
    Band, GetQuotaRequest, GetQuotaResponse, ListQuotasRequest, ListQuotasResponse, PageRequest, Quota,
    QuotaLimit, SetQuotaRequest,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;

impl Client {
    /// One page of the lines that were set or have charges, by holder and band. Of one `holder`, such as `ann` or
    /// `group/shop`, it has the line of each band that a quota may limit. Empty: those of every holder.
    ///
    /// # Errors
    /// As for every call.
    pub async fn quota_list_page(
        &self,
        holder: &str,
        page: PageRequest,
    ) -> Result<ListQuotasResponse, ClientError> {
        self.quotas_page(holder, "", page).await
    }

    /// One page of the lines right below a group, such as `group/shop`, by holder and band.
    ///
    /// # Errors
    /// As for every call.
    pub async fn quota_children_page(
        &self,
        parent: &str,
        page: PageRequest,
    ) -> Result<ListQuotasResponse, ClientError> {
        self.quotas_page("", parent, page).await
    }

    async fn quotas_page(
        &self,
        holder: &str,
        parent: &str,
        page: PageRequest,
    ) -> Result<ListQuotasResponse, ClientError> {
        let message = ListQuotasRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: holder.to_owned(),
            page: Some(page),
            parent: parent.to_owned(),
        };
        self.call("ListQuotas", message, rpc!(QuotaServiceClient.list_quotas)).await
    }

    /// The line of a holder in a band, with its last changes. One that was never set limits nothing.
    ///
    /// # Errors
    /// As for every call.
    pub async fn quota_get(&self, holder: &str, band: Band) -> Result<GetQuotaResponse, ClientError> {
        let message = GetQuotaRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: holder.to_owned(),
            band: band.into(),
        };
        self.call("GetQuota", message, rpc!(QuotaServiceClient.get_quota)).await
    }

    /// Sets the line of a holder in a band to this limit as a whole; `None` removes it. `expected` is the revision that
    /// the change was made for; 0: any.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if the line has another revision.
    pub async fn quota_set(
        &self,
        holder: &str,
        band: Band,
        limit: Option<QuotaLimit>,
        expected: u64,
    ) -> Result<Quota, ClientError> {
        let message = SetQuotaRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: holder.to_owned(),
            band: band.into(),
            limit,
            expected_revision: expected,
        };
        let answer = self.call("SetQuota", message, rpc!(QuotaServiceClient.set_quota)).await?;
        present("SetQuota", "quota", answer.quota)
    }
}
