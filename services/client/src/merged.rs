//! Merged services: the endpoints of several jobs of a user under one name.

use borough_proto::v1::merge_service_client::MergeServiceClient;
use borough_proto::v1::{
    GetMergedServiceRequest, GetMergedServiceResponse, JobShare, LabelMatch, ListMergedServicesRequest,
    ListMergedServicesResponse, MergedService, PageRequest, RemoveMergedServiceRequest,
    SetMergedServiceRequest,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;
use crate::job::JobRef;

impl Client {
    /// One page of merged services by user and name; of `user`, or of every user if that is empty.
    ///
    /// # Errors
    /// As for every call.
    pub async fn merged_service_list_page(
        &self,
        user: &str,
        page: PageRequest,
    ) -> Result<ListMergedServicesResponse, ClientError> {
        let message = ListMergedServicesRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: user.to_owned(),
            page: Some(page),
        };
        self.call("ListMergedServices", message, rpc!(MergeServiceClient.list_merged_services)).await
    }

    /// A merged service with its jobs as they are now.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if there is none of that name.
    pub async fn merged_service_get(
        &self,
        service: &JobRef,
    ) -> Result<GetMergedServiceResponse, ClientError> {
        let message = GetMergedServiceRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: service.user.clone(),
            name: service.name.clone(),
        };
        self.call("GetMergedService", message, rpc!(MergeServiceClient.get_merged_service)).await
    }

    /// Makes a merged service, or changes it as a whole. `expected` is the revision that the change was made for; 0:
    /// any.
    ///
    /// # Errors
    /// As for every call; `FAILED_PRECONDITION` if the service has another revision.
    pub async fn merged_service_set(
        &self,
        service: &JobRef,
        selector: Vec<LabelMatch>,
        shares: Vec<JobShare>,
        expected: u64,
    ) -> Result<MergedService, ClientError> {
        let message = SetMergedServiceRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: service.user.clone(),
            name: service.name.clone(),
            selector,
            shares,
            expected_revision: expected,
        };
        let answer =
            self.call("SetMergedService", message, rpc!(MergeServiceClient.set_merged_service)).await?;
        present("SetMergedService", "service", answer.service)
    }

    /// Removes a merged service. Its jobs keep their own names.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if there is none of that name.
    pub async fn merged_service_remove(&self, service: &JobRef) -> Result<MergedService, ClientError> {
        let message = RemoveMergedServiceRequest {
            context: self.context_mutation(),
            cell: self.cell().to_owned(),
            user: service.user.clone(),
            name: service.name.clone(),
        };
        let answer =
            self.call("RemoveMergedService", message, rpc!(MergeServiceClient.remove_merged_service)).await?;
        present("RemoveMergedService", "service", answer.service)
    }
}
