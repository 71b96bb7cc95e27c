//! Reading several layers of rows as one.

use bytes::Bytes;
use quorate_store::{Row, Scan};

use super::front::{Front, Sealed};

/// Rows asked of a layer at a time.
const CHUNK_ROWS: usize = 128;

/// A layer of rows that can be read in pieces: `None` as a value deletes the row in the layers below.
pub(super) trait Layer {
    /// Rows of the range, in the order of the scan, at most `rows_max`.
    fn read(&self, scan: &Scan<'_>, rows_max: usize) -> lsm_tree::Result<Vec<(Bytes, Option<Bytes>)>>;
}

impl Layer for Front {
    fn read(&self, scan: &Scan<'_>, rows_max: usize) -> lsm_tree::Result<Vec<(Bytes, Option<Bytes>)>> {
        Ok(self.range(scan, rows_max))
    }
}

impl Layer for Sealed {
    fn read(&self, scan: &Scan<'_>, rows_max: usize) -> lsm_tree::Result<Vec<(Bytes, Option<Bytes>)>> {
        Ok(self.range(scan, rows_max))
    }
}

/// One layer being read.
struct Reader<'a> {
    layer: &'a dyn Layer,
    /// The next rows, the very next one last.
    rows: Vec<(Bytes, Option<Bytes>)>,
    /// Where to go on; `None` at the end.
    edge: Option<Bytes>,
    started: bool,
}

impl<'a> Reader<'a> {
    fn new(layer: &'a dyn Layer) -> Self {
        Reader { layer, rows: Vec::new(), edge: None, started: false }
    }

    /// Makes sure that the next row, if there is one, is in `rows`.
    fn fill(&mut self, scan: &Scan<'_>, rows_max: usize) -> lsm_tree::Result<()> {
        if !self.rows.is_empty() || (self.started && self.edge.is_none()) {
            return Ok(());
        }
        let after;
        let mut rest = *scan;
        match &self.edge {
            Some(edge) if scan.reverse => rest.end = Some(edge),
            Some(edge) => {
                after = [&edge[..], &[0]].concat();
                rest.start = &after;
            }
            None => {}
        }
        let rows = self.layer.read(&rest, rows_max)?;
        let edge = if rows.len() < rows_max { None } else { rows.last().map(|(key, _)| key.clone()) };
        self.rows = rows;
        self.rows.reverse();
        self.edge = edge;
        self.started = true;
        Ok(())
    }
}

/// Reads `layers`, the newest first, as one.
pub(super) fn read(layers: &[&dyn Layer], scan: &Scan<'_>) -> lsm_tree::Result<Vec<Row>> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    if scan.end.is_some_and(|end| end <= scan.start) {
        return Ok(taken);
    }
    let rows_max = scan.rows_max.saturating_add(1).min(CHUNK_ROWS);
    let mut readers: Vec<Reader<'_>> = layers.iter().map(|layer| Reader::new(*layer)).collect();
    while taken.len() < scan.rows_max {
        let mut next: Option<Bytes> = None;
        for reader in &mut readers {
            reader.fill(scan, rows_max)?;
            let Some((key, _)) = reader.rows.last() else { continue };
            let sooner = |next: &Bytes| if scan.reverse { key > next } else { key < next };
            if next.as_ref().is_none_or(sooner) {
                next = Some(key.clone());
            }
        }
        let Some(next) = next else { break };
        let mut newest = None;
        for reader in &mut readers {
            if reader.rows.last().is_some_and(|(key, _)| *key == next)
                && let Some((_, value)) = reader.rows.pop()
            {
                newest.get_or_insert(value);
            }
        }
        let Some(Some(value)) = newest else { continue };
        bytes += next.len() + value.len();
        taken.push((next, value));
        if bytes >= scan.bytes_max {
            break;
        }
    }
    Ok(taken)
}
