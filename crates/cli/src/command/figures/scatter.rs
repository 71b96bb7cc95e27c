//! The tables and pictures of Scatter's evaluation.

use std::path::Path;

use anyhow::Result;

use super::Found;

/// Draws what was found.
pub(super) fn draw(_: &[Found], _: &Path) -> Result<String> {
    Ok(String::new())
}
