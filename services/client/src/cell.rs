//! Cells, their events, and the list of their tasks' endpoints.

use borough_proto::v1::cell_service_client::CellServiceClient;
use borough_proto::v1::name_service_client::NameServiceClient;
use borough_proto::v1::watch_service_client::WatchServiceClient;
use borough_proto::v1::{
    Cell, CellSettings, Cursor, Endpoint, GetCellRequest, GetCellResponse, LabelMatch, ListCellsRequest,
    ListEndpointsRequest, ListEndpointsResponse, ListEventsRequest, ListEventsResponse, PageRequest,
    UpdateCellRequest, UpdateCellResponse, WatchFilter,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;

/// Which endpoints are listed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EndpointListFilter {
    /// Empty: of every user.
    pub user: String,
    /// Empty: of every job.
    pub job: String,
    /// Only endpoints of jobs with labels that meet all of these conditions.
    pub selector: Vec<LabelMatch>,
}

impl Client {
    /// Every cell that the gateway serves.
    ///
    /// # Errors
    /// As for every call.
    pub async fn cell_list(&self) -> Result<Vec<Cell>, ClientError> {
        let message = ListCellsRequest { context: self.context_read(), load: false };
        let answer = self.call("ListCells", message, rpc!(CellServiceClient.list_cells)).await?;
        Ok(answer.cells)
    }

    /// The cell of the client, and the cursor for a watch that misses nothing after it.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` if the cell does not exist.
    pub async fn cell_get(&self) -> Result<(Cell, Option<Cursor>), ClientError> {
        let message =
            GetCellRequest { context: self.context_read(), name: self.cell().to_owned(), load: false };
        let answer: GetCellResponse = self.call("GetCell", message, rpc!(CellServiceClient.get_cell)).await?;
        Ok((present("GetCell", "cell", answer.cell)?, answer.cursor))
    }

    /// Changes settings of the client's cell. Absent settings stay.
    ///
    /// # Errors
    /// As for every call; `INVALID_ARGUMENT` names the invalid field, and what would be valid.
    pub async fn cell_update(&self, settings: CellSettings) -> Result<Cell, ClientError> {
        let message = UpdateCellRequest {
            context: self.context_mutation(),
            name: self.cell().to_owned(),
            settings: Some(settings),
            expected_revision: 0,
        };
        let answer: UpdateCellResponse =
            self.call("UpdateCell", message, rpc!(CellServiceClient.update_cell)).await?;
        present("UpdateCell", "cell", answer.cell)
    }

    /// Endpoints: of one job, of a user's jobs if `job` is empty, of all jobs if both are.
    ///
    /// # Errors
    /// As for every call.
    pub async fn endpoint_list(
        &self,
        user: &str,
        job: &str,
    ) -> Result<(Vec<Endpoint>, Option<Cursor>), ClientError> {
        let filter = EndpointListFilter { user: user.to_owned(), job: job.to_owned(), selector: Vec::new() };
        let first = self.endpoint_list_page(&filter, PageRequest::default()).await?;
        let (mut endpoints, cursor, mut page) = (first.endpoints, first.cursor, first.next_page);
        while !page.is_empty() {
            let answer = self.endpoint_list_page(&filter, PageRequest { limit: 0, page }).await?;
            endpoints.extend(answer.endpoints);
            page = answer.next_page;
        }
        Ok((endpoints, cursor))
    }

    /// One page of the endpoints that a filter chooses.
    ///
    /// # Errors
    /// As for every call.
    pub async fn endpoint_list_page(
        &self,
        filter: &EndpointListFilter,
        page: PageRequest,
    ) -> Result<ListEndpointsResponse, ClientError> {
        let message = ListEndpointsRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: filter.user.clone(),
            job: filter.job.clone(),
            page: Some(page),
            selector: filter.selector.clone(),
        };
        self.call("ListEndpoints", message, rpc!(NameServiceClient.list_endpoints)).await
    }

    /// The newest `limit` matching events, newest last; 0 is 100.
    ///
    /// # Errors
    /// As for every call.
    pub async fn event_list(
        &self,
        filter: WatchFilter,
        limit: u32,
    ) -> Result<ListEventsResponse, ClientError> {
        let message = ListEventsRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            filter: Some(filter),
            limit,
        };
        self.call("ListEvents", message, rpc!(WatchServiceClient.list_events)).await
    }
}
