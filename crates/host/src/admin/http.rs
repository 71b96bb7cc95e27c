//! HTTP around the desk, by `hyper`, on a thread of its own.
//!
//! What a stranger can make it hold is bounded: connections, the length of heads (by `hyper`) and of bodies, and the time that each may
//! take. A body is read only where a path takes one, and never by the length that somebody announced.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

use super::{Desk, PATHS, Reply, error};

/// Threads that answer.
const WORKERS: usize = 4;
/// Connections at the same time; more wait to be accepted.
const CONNECTIONS_MAX: usize = 64;
/// How long a head may take, the first and those that follow on the same connection; and how long a body.
const READ_MAX: Duration = Duration::from_secs(10);
/// How long a connection lasts, whatever it does.
const LIFE_MAX: Duration = Duration::from_secs(120);
/// Pause after a connection could not be accepted: out of descriptors, as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The open door; dropping it closes it. Nobody waits for those who are inside.
pub(super) struct Door {
    /// Whoever listens hears that it is dropped.
    _open: oneshot::Sender<Infallible>,
}

impl Door {
    /// Opens the door on a socket that listens already.
    pub(super) fn open(listener: TcpListener, desk: Arc<Desk>) -> io::Result<Door> {
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .thread_name("admin")
            .max_blocking_threads(WORKERS)
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (open, closed) = oneshot::channel();
        thread::Builder::new().name("admin".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, desk) => {}
                    _ = closed => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Door { _open: open })
    }
}

async fn accept(listener: tokio::net::TcpListener, desk: Arc<Desk>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = Arc::clone(&desk);
                tokio::spawn(async move {
                    serve(stream, desk).await;
                    drop(place);
                });
            }
            Err(reason) => {
                tracing::warn!(%reason, "no connection to the operators' door could be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, desk: Arc<Desk>) {
    let service = service_fn(|request| {
        let desk = Arc::clone(&desk);
        async move { Ok::<_, Infallible>(answer(request, desk).await) }
    });
    let mut http = http1::Builder::new();
    let connection = http
        .timer(TokioTimer::new())
        .header_read_timeout(READ_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // Whoever asked may have gone, or takes too long: there is nobody to tell.
    let _ = tokio::time::timeout(LIFE_MAX, connection).await;
}

async fn answer(request: Request<Incoming>, desk: Arc<Desk>) -> Reply {
    let path = match find(&request) {
        Ok(path) => path,
        Err(refusal) => return *refusal,
    };
    let body = match request.method() {
        &Method::POST => read(request, desk.body_bytes_max()).await,
        _ => Ok(Bytes::new()),
    };
    let body = match body {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    let answered = tokio::task::spawn_blocking(move || desk.answer(path, &body)).await;
    answered.unwrap_or_else(|reason| error(500, format!("the answer could not be made: {reason}")))
}

/// The path that is asked for, if it takes the request's method.
fn find(request: &Request<Incoming>) -> Result<&'static str, Box<Reply>> {
    let Some((path, method)) = PATHS.iter().find(|(known, _)| *known == request.uri().path()) else {
        let known: Vec<_> = PATHS.iter().map(|(path, _)| *path).collect();
        return Err(error(404, format!("there is no such path; there are {}", known.join(" "))).into());
    };
    let is_head = *method == Method::GET && *request.method() == Method::HEAD;
    if request.method() == method || is_head {
        return Ok(path);
    }
    let mut reply = error(405, format!("{path} takes {method} only"));
    let allowed = if *method == Method::POST { "POST" } else { "GET, HEAD" };
    reply.headers_mut().insert(hyper::header::ALLOW, HeaderValue::from_static(allowed));
    Err(reply.into())
}

/// Reads a body of JSON.
async fn read(request: Request<Incoming>, bytes_max: usize) -> Result<Bytes, Box<Reply>> {
    // A page in a browser cannot send this type to another origin without asking first.
    let is_json = request
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !is_json {
        return Err(error(415, "send a JSON body with the header Content-Type: application/json").into());
    }
    let too_long = || Box::new(error(413, format!("the body is longer than the limit of {bytes_max} bytes")));
    let body = request.into_body();
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_long());
    }
    match tokio::time::timeout(READ_MAX, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(reason)) if reason.is::<LengthLimitError>() => Err(too_long()),
        Ok(Err(reason)) => Err(error(400, format!("the body could not be read: {reason}")).into()),
        Err(_) => Err(error(408, format!("the body took longer than {} seconds", READ_MAX.as_secs())).into()),
    }
}

/// A reply with this code and body.
pub(super) fn reply(code: u16, content_type: &'static str, body: String) -> Reply {
    let mut reply = Response::new(Full::from(body));
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}
