//! Chirp: short posts, followers and timelines on a Quorate cluster, as an example of the [native client](quorate_client).
//! It is the application of the paper on Scatter (Glendenning and others, SOSP 2011), section 7.2.
//!
//! What to look at: a post is a transaction that depends on the chunk that it extends, so that posts of one user by several clients
//! at once follow each other ([`Chirp::post`]); a timeline is one question about the lists of all whom a user follows, answered as of one
//! instant, wherever they lie ([`Chirp::feeds`]).
//!
//! What it is not: a service to put before strangers. There are no passwords, so anybody can post as anybody.
//!
//! ```no_run
//! use chirp::{Chirp, Client, User};
//!
//! let (alice, bob): (User, User) = ("alice".parse()?, "bob".parse()?);
//! let mut chirp = Chirp::new(Client::new(["127.0.0.1:6380"]));
//! chirp.follow(&bob, &[alice.clone()])?;
//! chirp.post(&alice, "Hello, bob.")?;
//! assert_eq!(chirp.timeline(&bob, 20)?[0].text, "Hello, bob.");
//! # Ok::<(), chirp::ChirpError>(())
//! ```

mod chirp;
mod error;
mod http;
mod list;
mod page;
mod post;
mod user;
mod web;

pub use chirp::{Chirp, FOLLOWS_MAX, TIMELINE_LENGTH_MAX};
pub use error::ChirpError;
pub use post::{Feed, Post, TEXT_LENGTH_MAX, merge};
pub use quorate_client::{Client, Options};
pub use user::{NAME_LENGTH_MAX, User};
pub use web::{WORKERS, serve};
