//! A client of Quorate for Rust programs. It blocks, and has one request under way at a time: a program with several threads
//! gives each its own.
//!
//! What it does beyond what any Redis client does:
//!
//! - **One hop.** It keeps a map of who leads which keys and asks the leader. The map is learned from the door for the cluster
//!   view (`CLUSTER SLOTS`), and anew when a node says `MOVED`, a connection breaks or a node cannot serve. Given doors for the
//!   standalone view it has no map, and nodes pass its requests on.
//! - **Three outcomes.** Whatever changes something ends as [`Outcome::Done`], as [`Outcome::Refused`], when nothing happened, or
//!   as [`Outcome::Unknown`], when the deadline passed in doubt.
//! - **Several keys at one instant.** [`Client::get_all`] reads them as they stood together, wherever they lie, with one question.
//! - **Retries under the same name.** A change carries a name that this client chose. If the connection breaks or the node dies, it is
//!   asked for again, at any node, under that name: it happens at most once, and the client learns what became of it.
//! - **Transactions** over any keys: reads remember versions, and the commit happens only if these still stand. Reads and writes are
//!   then as if at one instant, strictly serializable.
//!
//! What it does not do: TLS, passwords, anything but strings. Other commands are for Redis clients, on the same data.
//!
//! ```no_run
//! use quorate_client::{Client, Outcome, Refusal};
//!
//! /// Moves `amount` between two accounts, however often others are faster.
//! fn transfer(client: &mut Client, from: &str, to: &str, amount: i64) -> Outcome<()> {
//!     loop {
//!         let mut transaction = client.begin();
//!         let mut balances = [0; 2];
//!         for (account, balance) in [from, to].iter().zip(&mut balances) {
//!             match transaction.get(account) {
//!                 Outcome::Done(value) => {
//!                     let text = value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
//!                     *balance = text.and_then(|text| text.parse().ok()).unwrap_or(0);
//!                 }
//!                 Outcome::Refused(why) => return Outcome::Refused(why),
//!                 Outcome::Unknown(why) => return Outcome::Unknown(why),
//!             }
//!         }
//!         transaction.put(from, (balances[0] - amount).to_string());
//!         transaction.put(to, (balances[1] + amount).to_string());
//!         match transaction.commit() {
//!             Outcome::Refused(Refusal::Conflict) => {} // Somebody was faster: read again.
//!             other => return other,
//!         }
//!     }
//! }
//!
//! let mut client = Client::new(["127.0.0.1:6380", "127.0.0.1:6390"]);
//! match transfer(&mut client, "alice", "bob", 5) {
//!     Outcome::Done(()) => println!("moved"),
//!     Outcome::Refused(why) => println!("nothing was changed: {why}"),
//!     Outcome::Unknown(why) => println!("it may have happened: {why}"),
//! }
//! ```

mod answer;
mod backoff;
mod client;
mod link;
mod map;
mod options;
mod outcome;
pub mod resp;
mod router;
mod transaction;

pub use client::Client;
pub use options::Options;
pub use outcome::{Outcome, Refusal};
pub use router::Counters;
pub use transaction::Transaction;
