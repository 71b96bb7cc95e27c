//! `status --watch`: a live view of the cluster on a terminal.
//!
//! Nodes are asked on a thread of its own, so that one that does not answer never keeps the keys waiting.

mod picture;
mod ring;

use std::io::{self, IsTerminal as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::args::Target;
use crate::exit::{self, WithCode as _, failure};
use crate::{deeds, view};

use picture::{Picture, draw};

/// Between the end of asking all nodes and asking them again.
const EVERY: Duration = Duration::from_secs(1);
/// How soon a key has its effect, at most.
const PROMPT: Duration = Duration::from_millis(100);

/// Shows the cluster until a key ends it.
///
/// # Errors
/// If standard output is no terminal, or there is nothing to ask.
pub(crate) fn run(target: &Target) -> Result<()> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let text = "`status --watch` draws on a terminal, and standard input or output is none: leave --watch away, or add --output json";
        return Err(failure(exit::USAGE, text));
    }
    // What is wrong with the target is told before the screen is taken.
    let first = look(target)?;
    let (tell, pictures) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let target = target.clone();
    thread::spawn(move || keep_looking(&target, &tell, &stopped));
    let mut terminal = ratatui::try_init().context("the terminal cannot be drawn on").code(exit::SYSTEM)?;
    let end = show(&mut terminal, first, &pictures);
    drop(stop);
    ratatui::try_restore().context("the terminal cannot be left as it was").code(exit::SYSTEM)?;
    end
}

/// Asks all nodes.
fn look(target: &Target) -> Result<Picture> {
    let view = view::gather(target)?;
    let deeds = deeds::gather(&view);
    Ok(Picture { view, deeds: deeds.all, trouble: None })
}

/// Asks all nodes until nobody wants to know.
fn keep_looking(target: &Target, tell: &Sender<Result<Picture>>, stopped: &Receiver<()>) {
    while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        if tell.send(look(target)).is_err() {
            return;
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    mut picture: Picture,
    pictures: &Receiver<Result<Picture>>,
) -> Result<()> {
    loop {
        for news in pictures.try_iter() {
            match news {
                Ok(news) => picture = news,
                Err(error) => picture.trouble = Some(format!("{error:#}")),
            }
        }
        terminal.draw(|frame| draw(frame, &picture)).code(exit::SYSTEM)?;
        if event::poll(PROMPT).code(exit::SYSTEM)?
            && let Event::Key(key) = event::read().code(exit::SYSTEM)?
            && ends(key)
        {
            return Ok(());
        }
    }
}

/// Whether a key ends it.
fn ends(key: KeyEvent) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && match key.code {
            KeyCode::Char('q') | KeyCode::Esc => true,
            KeyCode::Char('c') => is_control,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_keys_end_it() {
        let key = |code, modifiers| ends(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE) && key(KeyCode::Esc, KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE) && !key(KeyCode::Enter, KeyModifiers::NONE));
    }
}
