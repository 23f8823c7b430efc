//! Pages of lists with what is in use, for a screen that is drawn again and again: it asks for what it shows, not more.

use borough_proto::v1::cell_service_client::CellServiceClient;
use borough_proto::v1::job_service_client::JobServiceClient;
use borough_proto::v1::node_service_client::NodeServiceClient;
use borough_proto::v1::task_service_client::TaskServiceClient;
use borough_proto::v1::{
    Cell, GetCellRequest, ListCellsRequest, ListJobsRequest, ListJobsResponse, ListNodesRequest,
    ListNodesResponse, ListTasksRequest, ListTasksResponse, PageRequest,
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

    /// One page of the nodes of the cell, by name.
    ///
    /// # Errors
    /// As for every call.
    pub async fn node_list_page(&self, page: PageRequest) -> Result<ListNodesResponse, ClientError> {
        let (context, cell) = (self.context_read(), self.cell().to_owned());
        let message = ListNodesRequest { context, cell, page: Some(page) };
        self.call("ListNodes", message, rpc!(NodeServiceClient.list_nodes)).await
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

    /// One page of the tasks on a node.
    ///
    /// # Errors
    /// As for every call.
    pub async fn task_list_page_of_node(
        &self,
        node: &str,
        page: PageRequest,
    ) -> Result<ListTasksResponse, ClientError> {
        let message = ListTasksRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            node: node.to_owned(),
            page: Some(page),
            ..ListTasksRequest::default()
        };
        self.call("ListTasks", message, rpc!(TaskServiceClient.list_tasks)).await
    }
}
