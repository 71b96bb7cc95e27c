//! The operators' door: HTTP on threads of its own.
//!
//! It asks the loop for a picture of the node where it needs one, at most every quarter of a second, so that
//! watching a node costs it next to nothing.

mod http;
mod page;
mod why;

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Method, Response};
use quorate_api::Bucket;
use quorate_kernel::NodeId;
use quorate_node::{AdminOutcome, AdminRequest, BucketStatus, GroupRequest, Member, Status};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::config::Admin as Config;
use crate::control::Handle;
use crate::metrics;
use crate::process::Usage;
use crate::stats::{HostStats, Snapshot};

pub use why::WhyReport;

/// Sets the levels that are logged; an error says what is wrong with the filter.
pub type SetLogFilter = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// How old a picture may be.
const PICTURE_AGE_MAX: Duration = Duration::from_millis(250);
/// How long the loop may take to give one.
const PICTURE_WAIT: Duration = Duration::from_secs(2);
/// A loop that has not turned for so long is not alive.
const SILENCE_MAX: Duration = Duration::from_secs(10);

type Reply = Response<Full<Bytes>>;

/// The door; dropping it closes it.
pub(crate) struct Admin {
    _door: http::Door,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

/// What every worker needs.
struct Desk {
    handle: Handle,
    config: Config,
    set_log_filter: Option<SetLogFilter>,
    /// The newest picture; it is locked while a new one is asked for, so that many watchers ask once.
    picture: Mutex<Option<(Instant, Arc<Snapshot>)>>,
}

impl Admin {
    /// Opens the door on a socket that listens already.
    pub(crate) fn open(
        listener: TcpListener,
        handle: Handle,
        config: Config,
        set_log_filter: Option<SetLogFilter>,
    ) -> std::io::Result<Admin> {
        let desk = Arc::new(Desk { handle, config, set_log_filter, picture: Mutex::new(None) });
        Ok(Admin { _door: http::Door::open(listener, desk)? })
    }
}

/// What `/status` tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StatusReport {
    /// The node's view of itself.
    pub node: Status,
    /// Its driver's view of it.
    pub host: HostStats,
    /// What the process uses.
    pub process: Usage,
    /// The version of the program.
    pub version: String,
}

/// Body of `POST /members`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MembersBody {
    /// Nodes that are to hold copies.
    #[serde(default)]
    pub add: Vec<Member>,
    /// Nodes that are to leave.
    #[serde(default)]
    pub remove: Vec<NodeId>,
}

/// Body of `POST /leadership`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeadershipBody {
    /// To whom; nobody: to the member best prepared.
    #[serde(default)]
    pub to: Option<NodeId>,
}

/// Body of `POST /recover`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoverBody {
    /// The bucket, most of whose copies are lost.
    pub bucket: u16,
    /// That what only those had who are gone is given up.
    pub accept_data_loss: bool,
}

/// Body of `POST /copies`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopiesBody {
    /// How many copies of each bucket there are to be.
    pub copies: u8,
}

/// Body of `POST /log-level`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogBody {
    /// Such as `info` or `warn,quorate_host=debug`.
    pub filter: String,
}

/// What the `POST` paths answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeReport {
    /// `done`, `refused` (nothing was changed) or `unknown` (look before trying again).
    pub outcome: String,
    /// Why, unless it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

fn json<T: Serialize>(code: u16, value: &T) -> Reply {
    match serde_json::to_string(value) {
        Ok(body) => http::reply(code, "application/json", body + "\n"),
        Err(error) => http::reply(500, "application/json", format!("{{\"error\":\"{error}\"}}\n")),
    }
}

fn error(code: u16, reason: impl Into<String>) -> Reply {
    json(code, &serde_json::json!({ "error": reason.into() }))
}

/// The paths and the method each takes.
static PATHS: [(&str, Method); 12] = [
    ("/", Method::GET),
    ("/metrics", Method::GET),
    ("/health/live", Method::GET),
    ("/health/ready", Method::GET),
    ("/status", Method::GET),
    ("/why", Method::GET),
    ("/members", Method::POST),
    ("/copies", Method::POST),
    ("/groups", Method::POST),
    ("/leadership", Method::POST),
    ("/recover", Method::POST),
    ("/log-level", Method::POST),
];

impl Desk {
    fn body_bytes_max(&self) -> usize {
        self.config.body_bytes_max.get()
    }

    /// Answers a request of one of the paths; waits for the loop where it has to.
    fn answer(&self, path: &str, body: &[u8]) -> Reply {
        match path {
            "/" => self
                .with_picture(|picture| http::reply(200, "text/html; charset=utf-8", page::render(picture))),
            "/metrics" => self.with_picture(|picture| {
                let body = metrics::render(picture, Usage::now());
                http::reply(200, "application/openmetrics-text; version=1.0.0; charset=utf-8", body)
            }),
            "/health/live" => self.live(),
            "/health/ready" => self.with_picture(ready),
            "/status" => self.with_picture(|picture| json(200, &report(picture))),
            "/why" => self.why(),
            "/members" => self.posted(body, |desk, body: MembersBody| {
                if body.add.is_empty() && body.remove.is_empty() {
                    return error(400, "name members to `add` or node ids to `remove`");
                }
                desk.ask(AdminRequest::ChangeMembers { add: body.add, remove: body.remove })
            }),
            "/copies" => self.posted(body, |desk, body: CopiesBody| {
                desk.ask(AdminRequest::SetCopies { copies: body.copies })
            }),
            "/groups" => self.posted(body, |desk, body: GroupRequest| desk.ask(AdminRequest::Group(body))),
            "/leadership" => self.posted(body, |desk, body: LeadershipBody| {
                desk.ask(AdminRequest::TransferLeadership { to: body.to })
            }),
            "/recover" => self.posted(body, |desk, body: RecoverBody| {
                if !body.accept_data_loss {
                    return error(400, "say with `accept_data_loss` that what is lost is given up");
                }
                desk.ask(AdminRequest::Recover { bucket: Bucket(body.bucket) })
            }),
            _ => self.posted(body, Desk::set_log_filter),
        }
    }

    fn live(&self) -> Reply {
        let silence = self.handle.silence();
        if silence < SILENCE_MAX {
            return json(200, &serde_json::json!({ "live": true }));
        }
        error(503, format!("the loop has not turned for {} seconds", silence.as_secs()))
    }

    fn why(&self) -> Reply {
        match self.handle.journal(PICTURE_WAIT) {
            Some(Some(journal)) => json(200, &WhyReport::of(&journal)),
            Some(None) => error(404, "the nodes of this cluster form no groups"),
            None => error(503, "the node's loop does not answer"),
        }
    }

    fn set_log_filter(&self, body: LogBody) -> Reply {
        let Some(set) = &self.set_log_filter else {
            return error(501, "this program was started without levels that can be changed");
        };
        match set(&body.filter) {
            Ok(()) => json(200, &OutcomeReport { outcome: "done".into(), reason: None }),
            Err(reason) => error(400, format!("`{}` is not a filter: {reason}", body.filter)),
        }
    }

    /// Hands a body on, if it is what the path takes.
    fn posted<T: DeserializeOwned>(&self, body: &[u8], then: impl FnOnce(&Desk, T) -> Reply) -> Reply {
        match serde_json::from_slice(body) {
            Ok(value) => then(self, value),
            Err(reason) => error(400, format!("the body is not what this path takes: {reason}")),
        }
    }

    fn ask(&self, request: AdminRequest) -> Reply {
        let wait = Duration::from_millis(self.config.request_ms);
        let (code, outcome, reason) = match self.handle.admin(request, wait) {
            Some(AdminOutcome::Done) => (200, "done", None),
            Some(AdminOutcome::Refused(reason)) => (409, "refused", Some(reason)),
            Some(AdminOutcome::Unknown(reason)) => (504, "unknown", Some(reason)),
            None => (
                504,
                "unknown",
                Some("the node has not told the end in time: look before trying again".into()),
            ),
        };
        json(code, &OutcomeReport { outcome: outcome.into(), reason })
    }

    fn with_picture(&self, then: impl FnOnce(&Snapshot) -> Reply) -> Reply {
        match self.picture() {
            Some(picture) => then(&picture),
            None => error(503, "the node's loop does not answer"),
        }
    }

    fn picture(&self) -> Option<Arc<Snapshot>> {
        let mut kept = self.picture.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((taken, picture)) = &*kept
            && taken.elapsed() < PICTURE_AGE_MAX
        {
            return Some(Arc::clone(picture));
        }
        let picture = Arc::new(self.handle.snapshot(PICTURE_WAIT)?);
        *kept = Some((Instant::now(), Arc::clone(&picture)));
        Some(picture)
    }
}

fn ready(picture: &Snapshot) -> Reply {
    let halted: Vec<String> = picture.node.buckets.iter().filter_map(BucketStatus::alarm).collect();
    if picture.node.ready && !picture.host.stopping {
        return match halted.is_empty() {
            true => json(200, &serde_json::json!({ "ready": true })),
            // The other buckets are served.
            false => json(200, &serde_json::json!({ "ready": true, "halted": halted })),
        };
    }
    if !halted.is_empty() {
        return json(503, &serde_json::json!({ "error": halted.join("; "), "halted": halted }));
    }
    let what = if picture.host.stopping { "stopping" } else { picture.node.role.as_str() };
    error(503, format!("the node does not serve strict requests now: it is {what}"))
}

fn report(picture: &Snapshot) -> StatusReport {
    StatusReport {
        node: picture.node.clone(),
        host: picture.host.clone(),
        process: Usage::now(),
        version: env!("CARGO_PKG_VERSION").into(),
    }
}
