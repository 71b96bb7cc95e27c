//! `chirp`: the example on the command line. Everything it does is in the library.

use std::net::TcpListener;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use chirp::{Chirp, Client, Post, User, serve};
use clap::{Parser, Subcommand};

/// Short posts on a Quorate cluster.
#[derive(Debug, Parser)]
#[command(name = "chirp", version)]
struct Arguments {
    /// Doors of nodes, preferably those for the cluster view.
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        default_value = "127.0.0.1:6380"
    )]
    at: Vec<String>,
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Post a text of 1 to 140 characters.
    Post {
        /// Who posts.
        user: User,
        /// What.
        text: String,
    },
    /// Follow another user.
    Follow {
        /// Who follows.
        user: User,
        /// Whom.
        other: User,
    },
    /// No longer follow another user.
    Unfollow {
        /// Who follows.
        user: User,
        /// Whom no longer.
        other: User,
    },
    /// Show what those whom a user follows have posted, the newest first.
    Timeline {
        /// Whose timeline.
        user: User,
        /// At most so many posts, and 50.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Serve a page for browsers. It asks nobody for a password: listen where only you are.
    Serve {
        /// Where.
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8000")]
        listen: String,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(Arguments { at, command }: Arguments) -> Result<()> {
    let mut chirp = Chirp::new(Client::new(at.iter().cloned()));
    match command {
        Command::Post { user, text } => println!("{user} #{}", chirp.post(&user, &text)?.number),
        Command::Follow { user, other } => match chirp.follow(&user, std::slice::from_ref(&other))? {
            0 => println!("{user} follows {other} already"),
            _ => println!("{user} follows {other}"),
        },
        Command::Unfollow { user, other } => match chirp.unfollow(&user, std::slice::from_ref(&other))? {
            0 => println!("{user} did not follow {other}"),
            _ => println!("{user} no longer follows {other}"),
        },
        Command::Timeline { user, limit } => {
            let posts = chirp.timeline(&user, limit)?;
            posts.iter().for_each(|post| println!("{}", line(post)));
        }
        Command::Serve { listen } => {
            let listener =
                TcpListener::bind(&listen).with_context(|| format!("cannot listen on {listen}"))?;
            println!("http://{}", listener.local_addr()?);
            serve(listener, &at)?;
        }
    }
    Ok(())
}

/// A post for a terminal.
fn line(post: &Post) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let age = now.saturating_sub(post.at_ms / 1_000);
    // What somebody else wrote must not give orders to the terminal.
    let text = post.text.replace(char::is_control, " ");
    format!("{} #{}, {age} s ago: {text}", post.author, post.number)
}
