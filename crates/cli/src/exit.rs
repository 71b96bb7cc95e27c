//! How the program ends: every failure carries the code that scripts may rely on.

use std::fmt;

/// What was asked for did not happen, or was found to be wrong.
pub(crate) const FAILED: u8 = 1;
/// The command line, or what it names, is wrong; nothing was begun. `clap` uses the same.
pub(crate) const USAGE: u8 = 2;
/// The outcome is unknown: it may have happened.
pub(crate) const UNKNOWN: u8 = 3;
/// Nobody answers.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The system refuses what is needed.
pub(crate) const SYSTEM: u8 = 71;
/// Something that had to be created exists, or is held by somebody else.
pub(crate) const CANNOT_CREATE: u8 = 73;
/// Nothing happened; the same may succeed later.
pub(crate) const TRY_AGAIN: u8 = 75;
/// The configuration is wrong.
pub(crate) const CONFIG: u8 = 78;

/// The codes, for `--help`.
pub(crate) const TEXT: &str = "\
Exit codes:
   0  done
   1  not done, or found to be wrong (`get`: no such key; `check`: a violation)
   2  the command line or its input is wrong; nothing was begun
   3  unknown: it may have happened (`check`: gave up, not judged)
  10-14  `sim`: a panic, a safety, liveness, determinism, coverage failure
  69  nobody answers, or a port is taken        71  the system refuses something
  73  the data directory is in use              74  the disk failed, or what is on it is damaged
  75  nothing happened, try again               78  the configuration is wrong";

/// An error with its exit code.
#[derive(Debug)]
pub(crate) struct Coded {
    code: u8,
    error: anyhow::Error,
}

impl fmt::Display for Coded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

impl std::error::Error for Coded {}

/// Gives errors an exit code.
pub(crate) trait WithCode<T> {
    /// Ends the program with `code` if this error reaches its end.
    fn code(self, code: u8) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> WithCode<T> for Result<T, E> {
    fn code(self, code: u8) -> anyhow::Result<T> {
        self.map_err(|error| Coded { code, error: error.into() }.into())
    }
}

/// An error made of text.
pub(crate) fn failure(code: u8, text: impl Into<String>) -> anyhow::Error {
    Coded { code, error: anyhow::Error::msg(text.into()) }.into()
}

/// The exit code that belongs to an error.
pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    if let Some(coded) = error.downcast_ref::<Coded>() {
        return coded.code;
    }
    if let Some(host) = error.downcast_ref::<quorate_host::HostError>() {
        return host.exit_code();
    }
    if error.downcast_ref::<quorate_host::ConfigError>().is_some() {
        return CONFIG;
    }
    FAILED
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn codes_survive_added_context() {
        let plain: anyhow::Result<()> = Err(failure(TRY_AGAIN, "later"));
        assert_eq!(code_of(&plain.context("while asking").unwrap_err()), TRY_AGAIN);
        let config = quorate_host::ConfigError { complaints: vec!["a".into()] };
        assert_eq!(code_of(&config.into()), CONFIG);
        let other = std::io::Error::other("x");
        assert_eq!(code_of(&anyhow::Error::from(other)), FAILED);
        let wrapped: anyhow::Result<()> = Err(std::io::Error::other("x")).code(UNAVAILABLE);
        assert_eq!(code_of(&wrapped.unwrap_err()), UNAVAILABLE);
    }
}
