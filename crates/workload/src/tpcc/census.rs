//! How much has happened to the database since it was loaded, to be compared with what clients were told.

use super::Scale;
use super::check::{PAGE, Readout, districts};
use super::rows::{Number, Row as _};
use crate::transaction::{Read, Seen};

/// What was added to the database since it was loaded. The conditions cannot tell: a transaction that is gone without
/// a trace violates none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Census {
    /// Orders.
    pub orders: i64,
    /// Payments.
    pub payments: i64,
}

/// Counts.
///
/// # Errors
/// If the database cannot be read.
pub fn census<R: Readout>(readout: &mut R, scale: &Scale) -> Result<Census, R::Error> {
    let keys = scale.layout;
    let mut counted = Census::default();
    // As many orders as customers were loaded, and a payment of each customer.
    let loaded = i64::try_from(scale.customers).unwrap_or(i64::MAX);
    for (warehouse, district) in districts(scale) {
        let seen = readout.read(vec![Read::Value(keys.next_order(warehouse, district))])?;
        let next = match seen.first() {
            Some(Seen::Value(text)) => Number::decode(text).map(|row| row.value),
            _ => None,
        };
        counted.orders += next.unwrap_or(0) - 1 - loaded;
        let (key, mut from) = (keys.history(warehouse, district), 0);
        loop {
            let page = Read::Elements { key: key.clone(), from, to: from + PAGE - 1 };
            let seen = readout.read(vec![page])?;
            let count = if let Some(Seen::Elements(rows)) = seen.first() { rows.len() as i64 } else { 0 };
            counted.payments += count;
            from += PAGE;
            if count < PAGE {
                break;
            }
        }
        counted.payments -= loaded;
    }
    Ok(counted)
}
