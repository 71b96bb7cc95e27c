//! LCS: the longest common subsequence of two strings.

use alloc::vec;
use alloc::vec::Vec;
use bytes::Bytes;
use quorate_api::{ErrorReply, Reply};

use crate::args::{error, integer, is, syntax_error};
use crate::table::Answer;
use crate::{Kind, Space};

/// The table costs the product of both lengths. Redis lets it grow to 512 MiB; that would hold up a node, whose
/// other clients wait meanwhile, for a second, so the limit is lower here.
const TABLE_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Default)]
struct Options {
    ranges: bool,
    length: bool,
    with_lengths: bool,
    length_min: i64,
}

/// A run of equal bytes: where it starts in both strings, and its length.
#[derive(Clone, Copy)]
struct Run {
    left: usize,
    right: usize,
    length: usize,
}

struct Table {
    width: usize,
    cells: Vec<u32>,
}

impl Table {
    fn new(left: &[u8], right: &[u8]) -> Table {
        let width = right.len() + 1;
        let mut table = Table { width, cells: vec![0; width * (left.len() + 1)] };
        for (row, one) in left.iter().enumerate() {
            for (column, other) in right.iter().enumerate() {
                let longest = if one == other {
                    table.at(row, column) + 1
                } else {
                    table.at(row, column + 1).max(table.at(row + 1, column))
                };
                table.cells[(row + 1) * width + column + 1] = longest;
            }
        }
        table
    }

    /// The length for the first so many bytes of both strings.
    fn at(&self, left: usize, right: usize) -> u32 {
        self.cells[left * self.width + right]
    }
}

fn options(args: &[Bytes]) -> Result<Options, ErrorReply> {
    let mut options = Options::default();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if is(word, "idx") {
            options.ranges = true;
        } else if is(word, "len") {
            options.length = true;
        } else if is(word, "withmatchlen") {
            options.with_lengths = true;
        } else if is(word, "minmatchlen") {
            options.length_min = integer(words.next().ok_or_else(syntax_error)?)?;
        } else {
            return Err(syntax_error());
        }
    }
    if options.ranges && options.length {
        return Err(error("ERR If you want both the length and indexes, please just use IDX."));
    }
    Ok(options)
}

pub(super) fn lcs(space: &mut dyn Space, args: &[Bytes]) -> Answer {
    let (left, right) = (space.get(&args[0]), space.get(&args[1]));
    if [&left, &right].into_iter().flatten().any(|meta| meta.kind != Kind::String) {
        return Err(error("ERR The specified keys must contain string values"));
    }
    let left = left.map(|meta| meta.body).unwrap_or_default();
    let right = right.map(|meta| meta.body).unwrap_or_default();
    let options = options(&args[2..])?;
    let cells = (left.len() + 1).checked_mul(right.len() + 1);
    if cells.is_none_or(|cells| cells > TABLE_BYTES_MAX / size_of::<u32>()) {
        return Err(error("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"));
    }
    let table = Table::new(&left, &right);
    let length = Reply::Int(i64::from(table.at(left.len(), right.len())));
    if options.length {
        return Ok(length);
    }
    let runs = runs(&table, &left, &right);
    if !options.ranges {
        let pieces = runs.iter().rev().flat_map(|run| &left[run.left..run.left + run.length]);
        return Ok(Reply::bulk(pieces.copied().collect::<Vec<u8>>()));
    }
    let matches = runs.iter().filter(|run| run.length as i64 >= options.length_min);
    let matches = matches.map(|run| tell(run, options.with_lengths)).collect();
    Ok(Reply::Map(vec![
        (Reply::bulk(&b"matches"[..]), Reply::Array(matches)),
        (Reply::bulk(&b"len"[..]), length),
    ]))
}

fn tell(run: &Run, with_length: bool) -> Reply {
    let range = |start: usize| {
        Reply::Array(vec![Reply::Int(start as i64), Reply::Int((start + run.length - 1) as i64)])
    };
    let mut parts = vec![range(run.left), range(run.right)];
    if with_length {
        parts.push(Reply::Int(run.length as i64));
    }
    Reply::Array(parts)
}

/// The runs of the subsequence, from the last to the first; among several longest ones the one Redis finds.
fn runs(table: &Table, left: &[u8], right: &[u8]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let (mut row, mut column) = (left.len(), right.len());
    while row > 0 && column > 0 {
        if left[row - 1] == right[column - 1] {
            match runs.last_mut() {
                Some(run) if run.left == row && run.right == column => {
                    *run = Run { left: row - 1, right: column - 1, length: run.length + 1 };
                }
                _ => runs.push(Run { left: row - 1, right: column - 1, length: 1 }),
            }
            row -= 1;
            column -= 1;
        } else if table.at(row - 1, column) > table.at(row, column - 1) {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    runs
}
