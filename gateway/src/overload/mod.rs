//! Overload: each class of calls has its share of a gateway, and within a class every caller.
//!
//! A request over HTTP counts as the call of gRPC that asks for the same.
//!
//! A call takes seats while it is worked on. Beyond its share it waits, for a short time, and is then answered with
//! `RESOURCE_EXHAUSTED` and when to try again. Sessions of agents take no seats. A gateway that ends finishes the calls
//! that it has begun, and refuses others. Then it ends its streams, with a status by which clients resume elsewhere.

mod class;
mod metrics;
mod share;
mod stream;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use borough_kv::env::Clock;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::auth::Principal;
use crate::connection::CallLimits;
use crate::status::{status_exhausted, status_unavailable};
use class::{CallCharge, CallClass, CallerKey};
use metrics::CallMetrics;
use share::{Entry, Let, Seats, Ticket};
use stream::HeldBody;

/// How long a call waits for seats. Clients wait longer for an answer.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// How long a call keeps its seats. One that lasts longer waits for its caller, or for an agent.
const SEATED_MAX: Duration = Duration::from_secs(10);

/// What becomes of a call that waits.
enum WaitNotice {
    Entered,
    ThrownOut,
}

struct CallsShared {
    seats: Mutex<SeatsHeld>,
    metrics: CallMetrics,
    clock: Arc<dyn Clock>,
    ending: AtomicBool,
    /// Ends every stream.
    cut: CancellationToken,
    /// The last call, or the last stream, has ended.
    idle: Notify,
}

struct SeatsHeld {
    seats: Seats,
    waits: BTreeMap<Ticket, oneshot::Sender<WaitNotice>>,
}

impl SeatsHeld {
    fn tell(&mut self, Let { entered, thrown_out }: Let) {
        let mut tell = |ticket, told| {
            if let Some(waits) = self.waits.remove(&ticket) {
                // Its caller may have gone at this moment: then its guard gives the seats back.
                waits.send(told).ok();
            }
        };
        entered.into_iter().for_each(|ticket| tell(ticket, WaitNotice::Entered));
        thrown_out.into_iter().for_each(|ticket| tell(ticket, WaitNotice::ThrownOut));
    }
}

/// The calls of a gateway. Clones share them.
#[derive(Clone)]
pub(crate) struct Calls(Arc<CallsShared>);

impl Calls {
    pub(crate) fn new(limits: CallLimits, registry: &mut Registry, clock: Arc<dyn Clock>) -> Self {
        let metrics = CallMetrics::default();
        metrics.register(registry);
        let seats = Mutex::new(SeatsHeld { seats: Seats::new(limits), waits: BTreeMap::new() });
        let (cut, idle) = (CancellationToken::new(), Notify::new());
        Self(Arc::new(CallsShared { seats, metrics, clock, ending: AtomicBool::new(false), cut, idle }))
    }

    /// Refuses every call from now on, and waits until those that have begun are done.
    pub(crate) async fn end(&self) {
        self.0.ending.store(true, Ordering::Release);
        loop {
            let idle = self.0.idle.notified();
            if self.0.seats.lock().seats.used() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Ends every stream of gRPC with [`ending_status`], and waits until none is left. One over HTTP has no such end.
    pub(crate) async fn streams_end(&self) {
        self.0.cut.cancel();
        loop {
            let idle = self.0.idle.notified();
            if self.0.seats.lock().seats.streams() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Waits for the seats of a call.
    async fn enter(&self, charge: CallCharge) -> Result<CallSeat, Status> {
        if self.0.ending.load(Ordering::Acquire) {
            return Err(ending_status());
        }
        let waits = {
            let mut held = self.0.seats.lock();
            let (entry, changed) = held.seats.ask(charge.class, &charge.caller, charge.cost);
            held.tell(changed);
            let waits = match entry {
                Entry::Open => None,
                Entry::Full => return Err(self.refused(&charge)),
                Entry::Waits(ticket) => {
                    let (sender, told) = oneshot::channel();
                    held.waits.insert(ticket, sender);
                    Some((ticket, told))
                }
            };
            self.0.metrics.note(&held.seats, charge.class);
            waits
        };
        // From here on its end gives up the place, also if the caller goes.
        let mut seat =
            CallSeat { calls: self.clone(), charge, place: waits.map_or(Place::Seated, Place::Waits) };
        let Place::Waits((_, told)) = &mut seat.place else { return Ok(seat) };
        match tokio::time::timeout(WAIT_MAX, told).await {
            Ok(Ok(WaitNotice::Entered)) => {
                seat.place = Place::Seated;
                Ok(seat)
            }
            Ok(Ok(WaitNotice::ThrownOut) | Err(_)) => {
                seat.place = Place::Gone;
                Err(self.refused(&seat.charge))
            }
            Err(_) => Err(self.refused(&seat.charge)),
        }
    }

    fn refused(&self, charge: &CallCharge) -> Status {
        self.0.metrics.refuse(charge.class);
        let whose = match &charge.caller {
            CallerKey::User(user) => format!("{user} asks for"),
            CallerKey::Operator => "operators ask for".to_owned(),
        };
        let text = format!(
            "this gateway is busy: {whose} more at once than there is room for among calls of class {}; repeat it in a \
             few seconds, or ask another gateway",
            charge.class.name(),
        );
        status_exhausted("OVERLOADED", text)
    }

    /// Keeps a place among the streams for the answer to a call.
    fn stream(&self, caller: &CallerKey) -> Result<StreamSeat, Status> {
        let mut held = self.0.seats.lock();
        if !held.seats.stream_open(caller) {
            drop(held);
            self.0.metrics.streams_refused.inc();
            let text = "this gateway has as many streams as it may, in all or of this caller; end some, or ask another \
                        gateway";
            return Err(status_exhausted("STREAMS_FULL", text));
        }
        self.0.metrics.streams_note(&held.seats);
        Ok(StreamSeat { calls: self.clone(), caller: caller.clone() })
    }
}

/// The end of what a gateway that ends does not begin, or does not finish.
fn ending_status() -> Status {
    status_unavailable("GATEWAY_ENDING", "this gateway ends; ask another one, or again in a moment")
}

/// A call that was let in.
struct AdmittedCall {
    seat: CallSeat,
    /// Its place among the streams, if it goes on as one.
    stream: Option<StreamSeat>,
}

impl Calls {
    /// Waits until a call is let in.
    async fn admit(&self, charge: CallCharge) -> Result<AdmittedCall, Status> {
        let stream = charge.is_stream.then(|| self.stream(&charge.caller)).transpose()?;
        Ok(AdmittedCall { seat: self.enter(charge).await?, stream })
    }

    /// Answers a request over HTTP once it is let in, as a call of `principal` to `path`. `answer` gets the place among
    /// the streams, which the answer must keep as long as it goes on.
    ///
    /// # Errors
    /// The gateway has no room, or `answer` fails.
    pub(crate) async fn answered<T>(
        &self,
        path: &str,
        principal: &Principal,
        answer: impl FnOnce(Option<StreamSeat>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let Some(charge) = CallCharge::of(path, principal) else { return answer(None) };
        let watch = self.timed(path, charge.class);
        let admitted = self.admit(charge).await;
        let answered = admitted.and_then(|AdmittedCall { seat, stream }| {
            let answered = answer(stream);
            drop(seat);
            answered
        });
        watch.ended(answered.as_ref().map_or_else(Status::code, |_| Code::Ok));
        answered
    }

    /// Begins to time a call.
    fn timed(&self, path: &str, class: CallClass) -> TimedCall {
        let begun = self.0.clock.monotonic();
        TimedCall { calls: self.clone(), method: metrics::method_of(path), class, begun }
    }
}

/// A call from its arrival to its answer. One whose caller goes first is not counted.
struct TimedCall {
    calls: Calls,
    method: &'static str,
    class: CallClass,
    begun: Duration,
}

impl TimedCall {
    fn ended(self, code: Code) {
        let CallsShared { metrics, clock, .. } = &*self.calls.0;
        metrics.answered(self.method, self.class, code, clock.monotonic().saturating_sub(self.begun));
    }
}

/// Where a call is.
enum Place {
    Waits((Ticket, oneshot::Receiver<WaitNotice>)),
    Seated,
    /// It has left the queue, and has nothing to give back.
    Gone,
}

/// The seats of a call, or its place in the queue. Its end gives them back.
struct CallSeat {
    calls: Calls,
    charge: CallCharge,
    place: Place,
}

impl Drop for CallSeat {
    fn drop(&mut self) {
        let shared = &self.calls.0;
        let CallCharge { class, caller, cost, .. } = &self.charge;
        let mut held = shared.seats.lock();
        let is_seated = match &mut self.place {
            Place::Seated => true,
            Place::Gone => false,
            Place::Waits((ticket, told)) => {
                let still_waits = held.waits.remove(ticket).is_some();
                if still_waits {
                    held.seats.give_up(*class, caller, *ticket);
                }
                // It was let in at the moment in which its caller went.
                !still_waits && matches!(told.try_recv(), Ok(WaitNotice::Entered))
            }
        };
        if is_seated {
            let changed = held.seats.done(*class, caller, *cost);
            held.tell(changed);
        }
        shared.metrics.note(&held.seats, *class);
        if held.seats.used() == 0 {
            shared.idle.notify_waiters();
        }
    }
}

/// A place among the streams.
pub(crate) struct StreamSeat {
    calls: Calls,
    caller: CallerKey,
}

impl Drop for StreamSeat {
    fn drop(&mut self) {
        let shared = &self.calls.0;
        let mut held = shared.seats.lock();
        held.seats.stream_close(&self.caller);
        shared.metrics.streams_note(&held.seats);
        if held.seats.streams() == 0 {
            shared.idle.notify_waiters();
        }
    }
}

/// Lets calls in by their class and caller. It stands behind the layer that knows the caller.
#[derive(Clone)]
pub(crate) struct OverloadLayer(Calls);

impl OverloadLayer {
    pub(crate) fn new(calls: Calls) -> Self {
        Self(calls)
    }
}

impl<S> Layer<S> for OverloadLayer {
    type Service = Overload<S>;

    fn layer(&self, inner: S) -> Overload<S> {
        Overload { inner, calls: self.0.clone() }
    }
}

/// A service behind an [`OverloadLayer`].
#[derive(Clone)]
pub(crate) struct Overload<S> {
    inner: S,
    calls: Calls,
}

impl<S, B> Service<Request<B>> for Overload<S>
where
    S: Service<Request<B>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let charge = request.extensions().get::<Principal>();
        let charge = charge.and_then(|principal| CallCharge::of(request.uri().path(), principal));
        // The service that is ready answers this request, and its copy the next.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let Some(charge) = charge else { return Box::pin(inner.call(request)) };
        let calls = self.calls.clone();
        let timed = calls.timed(request.uri().path(), charge.class);
        Box::pin(async move {
            let AdmittedCall { seat, stream } = match calls.admit(charge).await {
                Ok(admitted) => admitted,
                Err(refused) => {
                    timed.ended(refused.code());
                    return Ok(refused.into_http());
                }
            };
            let mut answer = Box::pin(inner.call(request));
            let in_time = tokio::time::timeout(SEATED_MAX, &mut answer).await;
            drop(seat);
            let answer = match in_time {
                Ok(answer) => answer,
                Err(_) => answer.await,
            };
            if let Ok(answer) = &answer {
                // The status of a call that was done follows its body.
                let status = Status::from_header_map(answer.headers());
                timed.ended(status.map_or(Code::Ok, |status| status.code()));
            }
            answer.map(|answer| match stream {
                Some(stream) => answer.map(|body| Body::new(HeldBody::new(body, stream, &calls.0.cut))),
                None => answer,
            })
        })
    }
}

#[cfg(test)]
mod tests;
