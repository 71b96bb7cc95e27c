//! The page that `chirp serve` shows: which question brings which answer.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate_client::{Client, Options};

use crate::http::{self, Reply, Request, Unreadable};
use crate::page::{self, Shown};
use crate::{Chirp, ChirpError, User};

/// Threads that answer, each with a connection to the cluster of its own. Whoever comes while all are busy waits in the
/// system's queue.
pub const WORKERS: usize = 8;
/// Posts on a page, of each kind.
const SHOWN: usize = 20;
/// How long a user waits for the cluster.
const DEADLINE: Duration = Duration::from_secs(10);
/// After a failure of the system, so that it is not asked all the time.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves the page on a socket that listens, from the cluster with these doors (`host:port`), until the process ends.
///
/// # Errors
/// If the system gives no threads, or cannot share the socket among them.
pub fn serve(listener: TcpListener, doors: &[String]) -> io::Result<()> {
    let mut threads = Vec::with_capacity(WORKERS);
    for _ in 0..WORKERS {
        let listener = listener.try_clone()?;
        let options = Options { deadline: DEADLINE, ..Options::default() };
        let mut chirp = Chirp::new(Client::with_options(doors.to_vec(), options));
        let work = move || loop {
            if answer_next(&listener, &mut chirp).is_err() {
                thread::sleep(PAUSE);
            }
        };
        threads.push(thread::Builder::new().name("chirp".into()).spawn(work)?);
    }
    for thread in threads {
        let _: thread::Result<()> = thread.join();
    }
    Ok(())
}

/// Answers whoever comes next; an error is one of the listening socket.
fn answer_next(listener: &TcpListener, chirp: &mut Chirp) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let reply = match http::receive(&mut stream) {
        Ok(None) => return Ok(()),
        Ok(Some(request)) => answer(chirp, &request),
        Err(Unreadable(status, why)) => failed(status, &why, None),
    };
    // Whoever asked may have gone.
    let _ = http::send(&mut stream, &reply);
    Ok(())
}

fn shown(body: String) -> Reply {
    Reply { status: 200, location: None, body }
}

fn failed(status: u16, why: &str, user: Option<&User>) -> Reply {
    Reply { status, location: None, body: page::error(why, user) }
}

fn answer(chirp: &mut Chirp, request: &Request) -> Reply {
    let is_change = match (request.path.as_str(), request.method.as_str()) {
        ("/", "GET") => false,
        ("/post" | "/follow" | "/unfollow", "POST") => true,
        ("/" | "/post" | "/follow" | "/unfollow", _) => {
            return failed(405, "this page does not work so", None);
        }
        _ => return failed(404, "there is no such page", None),
    };
    if let Some(why) = is_foreign(request) {
        return failed(403, why, None);
    }
    if !is_change && request.field("user").is_empty() {
        return shown(page::start());
    }
    let user = match request.field("user").parse::<User>() {
        Ok(user) => user,
        Err(error) => return failed(400, &error.to_string(), None),
    };
    let end = if is_change { change(chirp, request, &user) } else { show(chirp, &user) };
    end.unwrap_or_else(|error| failed(status(&error), &error.to_string(), Some(&user)))
}

/// Why a request is not one of this page's own: another page, open in the same browser, may have sent it.
fn is_foreign(request: &Request) -> Option<&'static str> {
    let host = request.host.as_str();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if !is_address && name != "localhost" {
        // A foreign name may have been made to lead here.
        return Some("open this page by its address, such as 127.0.0.1");
    }
    let is_own = |origin: &str| origin.strip_prefix("http://") == Some(host);
    let origin = request.origin.as_deref().filter(|_| request.method == "POST");
    origin.is_some_and(|origin| !is_own(origin)).then_some("this was sent by another page")
}

fn change(chirp: &mut Chirp, request: &Request, user: &User) -> Result<Reply, ChirpError> {
    match request.path.as_str() {
        "/post" => _ = chirp.post(user, request.field("text"))?,
        "/follow" => _ = chirp.follow(user, &[request.field("other").parse()?])?,
        _ => _ = chirp.unfollow(user, &[request.field("other").parse()?])?,
    }
    // So that loading the page anew does not do it again.
    Ok(Reply { status: 303, location: Some(page::address(user)), body: String::new() })
}

fn show(chirp: &mut Chirp, user: &User) -> Result<Reply, ChirpError> {
    let follows = chirp.follows(user)?;
    // The user's own beside the others, so that one question brings all.
    let mut authors = vec![user.clone()];
    authors.extend(follows.iter().cloned());
    let mut feeds = chirp.feeds(&authors, SHOWN)?;
    let own = crate::merge(feeds.drain(..1).collect(), SHOWN);
    let timeline = crate::merge(feeds, SHOWN);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now_ms = u64::try_from(now_ms).unwrap_or(u64::MAX);
    Ok(shown(page::user(&Shown { user: user.clone(), timeline, own, follows }, now_ms)))
}

fn status(error: &ChirpError) -> u16 {
    match error {
        ChirpError::Name(_) | ChirpError::Length(_) | ChirpError::Own(_) => 400,
        ChirpError::Full(_) => 409,
        ChirpError::Refused(_) | ChirpError::Contended(_) => 503,
        ChirpError::Unknown(_) => 504,
        ChirpError::Damaged(_) => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str, host: &str, origin: Option<&str>) -> Request {
        Request {
            method: method.to_owned(),
            path: path.to_owned(),
            fields: Vec::new(),
            host: host.to_owned(),
            origin: origin.map(str::to_owned),
        }
    }

    /// Asked of a cluster that nobody can reach.
    fn status_of(request: &Request) -> u16 {
        answer(&mut Chirp::new(Client::new(Vec::<String>::new())), request).status
    }

    #[test]
    fn questions_that_make_no_sense_are_refused_before_the_cluster_is_asked() {
        let own = "127.0.0.1:8000";
        assert_eq!(status_of(&request("GET", "/", own, None)), 200);
        assert_eq!(status_of(&request("GET", "/", "localhost:8000", None)), 200);
        assert_eq!(status_of(&request("GET", "/", "[::1]:8000", None)), 200);
        assert_eq!(status_of(&request("GET", "/nowhere", own, None)), 404);
        assert_eq!(status_of(&request("GET", "/post", own, None)), 405);
        assert_eq!(status_of(&request("DELETE", "/", own, None)), 405);
        assert_eq!(status_of(&request("POST", "/post", own, None)), 400, "there is no user");
        assert_eq!(status_of(&request("POST", "/post", own, Some("http://127.0.0.1:8000"))), 400);
    }

    #[test]
    fn other_pages_cannot_post() {
        let own = "127.0.0.1:8000";
        for origin in ["http://evil.example", "null", "http://127.0.0.1:8001", "https://127.0.0.1:8000"] {
            assert_eq!(status_of(&request("POST", "/post", own, Some(origin))), 403, "{origin}");
        }
        for host in ["evil.example:8000", "evil.example", ""] {
            assert_eq!(status_of(&request("GET", "/", host, None)), 403, "{host}");
        }
    }
}
