//! Pages of lists with what is in use, for a screen that is drawn again and again: it asks for what it shows, not more.

use borough_proto::v1::cell_service_client::CellServiceClient;
use borough_proto::v1::job_service_client::JobServiceClient;
use borough_proto::v1::{
    Cell, GetCellRequest, ListCellsRequest, ListJobsRequest, ListJobsResponse, PageRequest,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;

impl Client {
    /// Every cell that the gateway serves, with the measured loads of their nodes.
    ///
    /// # Errors
    /// As for every call.
    pub async fn cell_list_with_load(&self) -> Result<Vec<Cell>, ClientError> {
        let message = ListCellsRequest { context: self.context_read(), load: true };
        Ok(self.call("ListCells", message, rpc!(CellServiceClient.list_cells)).await?.cells)
    }

    /// The cell of the client, with the measured loads of its nodes.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if the cell does not exist.
    pub async fn cell_get_with_load(&self) -> Result<Cell, ClientError> {
        let (context, name) = (self.context_read(), self.cell().to_owned());
        let message = GetCellRequest { context, name, load: true };
        let answer = self.call("GetCell", message, rpc!(CellServiceClient.get_cell)).await?;
        present("GetCell", "cell", answer.cell)
    }

    /// One page of the jobs of the cell that have not ended, with what their tasks are charged for and use.
    ///
    /// # Errors
    /// As for every call.
    pub async fn job_list_page_with_usage(&self, page: PageRequest) -> Result<ListJobsResponse, ClientError> {
        let message = ListJobsRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            page: Some(page),
            usage: true,
            ..ListJobsRequest::default()
        };
        self.call("ListJobs", message, rpc!(JobServiceClient.list_jobs)).await
    }
}
