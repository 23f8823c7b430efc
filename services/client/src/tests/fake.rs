//! A fake gateway in this process: it answers from a script and records its requests.

use std::collections::VecDeque;
use std::sync::Arc;

use borough_proto::v1::cell_service_server::{CellService, CellServiceServer};
use borough_proto::v1::job_service_server::{JobService, JobServiceServer};
use borough_proto::v1::name_service_server::{NameService, NameServiceServer};
use borough_proto::v1::watch_service_server::{WatchService, WatchServiceServer};
use borough_proto::v1::*;
use futures::stream::{self, BoxStream, StreamExt as _};
use parking_lot::Mutex;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// A stream's script: what it sends before it ends.
pub(super) type Sends<T> = Vec<Result<T, Status>>;

#[derive(Default)]
pub(super) struct Script {
    /// Failures of the next calls of `SubmitJob`; after them it succeeds.
    pub(super) submit_failures: Mutex<VecDeque<Status>>,
    /// The request ids of `SubmitJob`.
    pub(super) request_ids: Mutex<Vec<String>>,
    /// The authorization of `SubmitJob`.
    pub(super) authorizations: Mutex<Vec<String>>,
    /// Streams of `Watch`; after the last one a stream that stays open.
    pub(super) watches: Mutex<VecDeque<Sends<WatchResponse>>>,
    /// The resume cursor of each `Watch`.
    pub(super) watch_resumes: Mutex<Vec<Option<Cursor>>>,
    /// Streams of `WatchEndpoints`.
    pub(super) endpoints: Mutex<VecDeque<Sends<WatchEndpointsResponse>>>,
    /// The resume cursor of each `WatchEndpoints`.
    pub(super) endpoint_resumes: Mutex<Vec<Option<Cursor>>>,
}

#[derive(Clone)]
pub(super) struct Fake(pub(super) Arc<Script>);

/// A running fake; it stops when dropped.
pub(super) struct Running {
    pub(super) address: String,
    pub(super) script: Arc<Script>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) async fn start() -> Running {
    start_at("127.0.0.1:0").await
}

/// A fake at this address.
pub(super) async fn start_at(address: &str) -> Running {
    let listener = tokio::net::TcpListener::bind(address).await.expect("a loopback port");
    let address = listener.local_addr().expect("bound").to_string();
    let script = Arc::new(Script::default());
    let fake = Fake(script.clone());
    let server = tonic::transport::Server::builder()
        .add_service(JobServiceServer::new(fake.clone()))
        .add_service(CellServiceServer::new(fake.clone()))
        .add_service(NameServiceServer::new(fake.clone()))
        .add_service(WatchServiceServer::new(fake))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let task = tokio::spawn(async move {
        server.await.expect("serves");
    });
    Running { address, script, task }
}

pub(super) fn cursor(stamp: u8) -> Cursor {
    Cursor { store_epoch: 1, stamp: vec![0, 0, 0, 0, 0, 0, 0, 0, 0, stamp].into() }
}

fn script<T: Send + 'static>(sends: Option<Sends<T>>) -> BoxStream<'static, Result<T, Status>> {
    match sends {
        Some(sends) => stream::iter(sends).boxed(),
        None => stream::pending().boxed(),
    }
}

#[tonic::async_trait]
impl JobService for Fake {
    async fn submit_job(
        &self,
        request: Request<SubmitJobRequest>,
    ) -> Result<Response<SubmitJobResponse>, Status> {
        let authorization = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        self.0.authorizations.lock().extend(authorization.map(str::to_owned));
        let context = request.into_inner().context.unwrap_or_default();
        self.0.request_ids.lock().push(context.request_id);
        match self.0.submit_failures.lock().pop_front() {
            Some(status) => Err(status),
            None => Ok(Response::new(SubmitJobResponse { changed: true, ..Default::default() })),
        }
    }

    async fn list_jobs(
        &self,
        request: Request<ListJobsRequest>,
    ) -> Result<Response<ListJobsResponse>, Status> {
        let page = request.into_inner().page.unwrap_or_default().page;
        let number: u32 = page.parse().unwrap_or(0);
        let job = Job { name: format!("job-{number}"), ..Default::default() };
        let next_page = if number < 2 { (number + 1).to_string() } else { String::new() };
        Ok(Response::new(ListJobsResponse { jobs: vec![job], next_page, cursor: Some(cursor(1)) }))
    }

    async fn get_job(&self, _: Request<GetJobRequest>) -> Result<Response<GetJobResponse>, Status> {
        // Never answers: for deadlines.
        std::future::pending().await
    }

    async fn plan_job(&self, _: Request<PlanJobRequest>) -> Result<Response<PlanJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn scale_job(&self, _: Request<ScaleJobRequest>) -> Result<Response<ScaleJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn order_rollout(
        &self,
        _: Request<OrderRolloutRequest>,
    ) -> Result<Response<OrderRolloutResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn stop_job(&self, _: Request<StopJobRequest>) -> Result<Response<StopJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn purge_job(&self, _: Request<PurgeJobRequest>) -> Result<Response<PurgeJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn label_job(&self, _: Request<LabelJobRequest>) -> Result<Response<LabelJobResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }

    async fn get_job_history(
        &self,
        _: Request<GetJobHistoryRequest>,
    ) -> Result<Response<GetJobHistoryResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }
}

#[tonic::async_trait]
impl CellService for Fake {
    async fn list_cells(&self, _: Request<ListCellsRequest>) -> Result<Response<ListCellsResponse>, Status> {
        Ok(Response::new(ListCellsResponse::default()))
    }

    async fn get_cell(&self, _: Request<GetCellRequest>) -> Result<Response<GetCellResponse>, Status> {
        let cell = Some(Cell { name: "alpha".to_owned(), ..Default::default() });
        Ok(Response::new(GetCellResponse { cell, cursor: Some(cursor(1)) }))
    }

    async fn update_cell(
        &self,
        _: Request<UpdateCellRequest>,
    ) -> Result<Response<UpdateCellResponse>, Status> {
        Err(Status::unimplemented("not in this script"))
    }
}

#[tonic::async_trait]
impl WatchService for Fake {
    type WatchStream = BoxStream<'static, Result<WatchResponse, Status>>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.0.watch_resumes.lock().push(request.into_inner().resume);
        Ok(Response::new(script(self.0.watches.lock().pop_front())))
    }

    async fn list_events(
        &self,
        _: Request<ListEventsRequest>,
    ) -> Result<Response<ListEventsResponse>, Status> {
        Ok(Response::new(ListEventsResponse::default()))
    }
}

#[tonic::async_trait]
impl NameService for Fake {
    type WatchEndpointsStream = BoxStream<'static, Result<WatchEndpointsResponse, Status>>;

    async fn watch_endpoints(
        &self,
        request: Request<WatchEndpointsRequest>,
    ) -> Result<Response<Self::WatchEndpointsStream>, Status> {
        self.0.endpoint_resumes.lock().push(request.into_inner().resume);
        Ok(Response::new(script(self.0.endpoints.lock().pop_front())))
    }

    async fn list_endpoints(
        &self,
        _: Request<ListEndpointsRequest>,
    ) -> Result<Response<ListEndpointsResponse>, Status> {
        Ok(Response::new(ListEndpointsResponse::default()))
    }
}
