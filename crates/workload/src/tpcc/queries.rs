//! The transactions that only read: Order-Status (clause 2.6.2) and Stock-Level (clause 2.8.2).

use std::collections::BTreeSet;

use super::attempt::{Stop, View};
use super::input::Who;
use super::payment::{first_reads, identify};
use super::rows::{Account, Customer, Line, Order, Stock};
use crate::transaction::{Read, Write};

/// Orders whose items a stock level looks at.
const RECENT: i64 = 20;

pub(super) fn order_status(view: &mut View, at: (u64, u64), who: &Who) -> Result<Vec<Write>, Stop> {
    let keys = view.layout;
    view.want(first_reads(keys, at, who))?;
    let id = identify(view, at, who)?;
    let newest_key = keys.newest_order(at.0, at.1, id);
    view.want([
        Read::Value(keys.customer(at.0, at.1, id)),
        Read::Value(keys.account(at.0, at.1, id)),
        Read::Value(newest_key.clone()),
    ])?;
    let _: Customer = view.row(keys.customer(at.0, at.1, id))?;
    let _: Account = view.row(keys.account(at.0, at.1, id))?;
    let newest = view.number(newest_key)? as u64;
    let (order_key, lines_key) = (keys.order(at.0, at.1, newest), keys.lines(at.0, at.1, newest));
    view.want([Read::Value(order_key.clone()), Read::list(lines_key.clone())])?;
    let _: Order = view.row(order_key)?;
    let _: Vec<Line> = view.list(lines_key)?;
    Ok(Vec::new())
}

/// How many of the items in recent orders are short.
pub(super) fn stock_level(view: &mut View, at: (u64, u64), threshold: i64) -> Result<usize, Stop> {
    let keys = view.layout;
    let next = view.number(keys.next_order(at.0, at.1))?;
    let recent = (next - RECENT).max(1)..next;
    view.want(recent.clone().map(|id| Read::list(keys.lines(at.0, at.1, id as u64))))?;
    let mut items = BTreeSet::new();
    for id in recent {
        let lines: Vec<Line> = view.list(keys.lines(at.0, at.1, id as u64))?;
        items.extend(lines.iter().map(|line| line.item));
    }
    view.want(items.iter().map(|item| Read::Value(keys.stock(at.0, *item))))?;
    let mut short = 0;
    for item in items {
        let stock: Stock = view.row(keys.stock(at.0, item))?;
        short += usize::from(stock.quantity < threshold);
    }
    Ok(short)
}
