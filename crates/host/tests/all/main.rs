//! A node's driver with a small machine, met at its doors; one program, so that the loop is compiled for that machine once.

mod admin;
mod clients;
mod cluster;
mod common;
mod disk;
mod peers;
mod signals;
