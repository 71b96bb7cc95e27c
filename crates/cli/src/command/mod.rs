//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod copies;
pub(crate) mod data;
pub(crate) mod figures;
pub(crate) mod groups;
pub(crate) mod local;
pub(crate) mod members;
pub(crate) mod recover;
pub(crate) mod sim;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod why;
