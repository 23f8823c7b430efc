//! Cells, what has happened in them, and the endpoints of their tasks as a list.

use borough_proto::v1::cell_service_client::CellServiceClient;
use borough_proto::v1::name_service_client::NameServiceClient;
use borough_proto::v1::watch_service_client::WatchServiceClient;
use borough_proto::v1::{
    Cell, CellSettings, Cursor, Endpoint, GetCellRequest, GetCellResponse, ListCellsRequest,
    ListEndpointsRequest, ListEventsRequest, ListEventsResponse, UpdateCellRequest, UpdateCellResponse,
    WatchFilter,
};

use crate::call::{Client, present, rpc};
use crate::error::ClientError;

impl Client {
    /// Every cell the gateway knows.
    ///
    /// # Errors
    /// As for every call.
    pub async fn cell_list(&self) -> Result<Vec<Cell>, ClientError> {
        let message = ListCellsRequest { context: self.context_read() };
        let answer = self.call("ListCells", message, rpc!(CellServiceClient.list_cells)).await?;
        Ok(answer.cells)
    }

    /// The cell that calls are about, and the cursor from which a watch misses nothing after it.
    ///
    /// # Errors
    /// As for every call; `NOT_FOUND` where there is no such cell.
    pub async fn cell_get(&self) -> Result<(Cell, Option<Cursor>), ClientError> {
        let message = GetCellRequest { context: self.context_read(), name: self.cell().to_owned() };
        let answer: GetCellResponse = self.call("GetCell", message, rpc!(CellServiceClient.get_cell)).await?;
        Ok((present("GetCell", "cell", answer.cell)?, answer.cursor))
    }

    /// Changes settings of the cell that calls are about; what is absent stays.
    ///
    /// # Errors
    /// As for every call; `INVALID_ARGUMENT` names the field that cannot be, and what could.
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

    /// Endpoints of a user's jobs, of one job where `job` is not empty, of everybody where both are.
    ///
    /// # Errors
    /// As for every call.
    pub async fn endpoint_list(
        &self,
        user: &str,
        job: &str,
    ) -> Result<(Vec<Endpoint>, Option<Cursor>), ClientError> {
        let message = ListEndpointsRequest {
            context: self.context_read(),
            cell: self.cell().to_owned(),
            user: user.to_owned(),
            job: job.to_owned(),
        };
        let answer = self.call("ListEndpoints", message, rpc!(NameServiceClient.list_endpoints)).await?;
        Ok((answer.endpoints, answer.cursor))
    }

    /// The newest `limit` events of interest, newest last; 0 is 100.
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
