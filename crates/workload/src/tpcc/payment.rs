//! The Payment transaction (clause 2.5.2).

use super::Layout;
use super::attempt::{Stop, View, put, put_number};
use super::input::Who;
use super::rows::{Account, Customer, Number, Payment, Place, Row as _};
use crate::transaction::{Read, Write};

/// A customer's data is cut to so many bytes.
const DATA_BYTES: usize = 500;

/// A warehouse and one of its districts.
type Where = (u64, u64);

pub(super) fn run(
    view: &mut View,
    at: Where,
    of: Where,
    who: &Who,
    amount: i64,
    now: u64,
) -> Result<Vec<Write>, Stop> {
    let (keys, (warehouse, district)) = (view.layout, at);
    let mut reads = vec![
        Read::Value(keys.warehouse(warehouse)),
        Read::Value(keys.warehouse_sum(warehouse)),
        Read::Value(keys.district(warehouse, district)),
        Read::Value(keys.district_sum(warehouse, district)),
    ];
    reads.extend(first_reads(keys, of, who));
    view.want(reads)?;
    let id = identify(view, of, who)?;
    let (customer_key, account_key) = (keys.customer(of.0, of.1, id), keys.account(of.0, of.1, id));
    view.want([Read::Value(customer_key.clone()), Read::Value(account_key.clone())])?;
    let (place, part): (Place, Place) =
        (view.row(keys.warehouse(warehouse))?, view.row(keys.district(warehouse, district))?);
    let customer: Customer = view.row(customer_key)?;
    let mut account: Account = view.row(account_key.clone())?;
    account.balance -= amount;
    account.paid += amount;
    account.payments += 1;
    if customer.credit == "BC" {
        account.data = format!("{id} {} {} {district} {warehouse} {amount} {}", of.1, of.0, account.data);
        account.data.truncate(DATA_BYTES);
    }
    let row = Payment {
        customer: id,
        customer_district: of.1,
        customer_warehouse: of.0,
        district,
        warehouse,
        at: now,
        amount,
        data: format!("{}    {}", place.name, part.name),
    };
    let (of_warehouse, of_district) = (keys.warehouse_sum(warehouse), keys.district_sum(warehouse, district));
    Ok(vec![
        put_number(of_warehouse.clone(), view.number(of_warehouse)? + amount),
        put_number(of_district.clone(), view.number(of_district)? + amount),
        put(account_key, &account),
        Write::Push { key: keys.history(warehouse, district), elements: vec![row.encode()] },
    ])
}

/// What can be read at once to find a customer.
pub(super) fn first_reads(keys: Layout, of: Where, who: &Who) -> Vec<Read> {
    match who {
        Who::LastName(name) => vec![Read::list(keys.by_name(of.0, of.1, name))],
        Who::Id(id) => {
            vec![Read::Value(keys.customer(of.0, of.1, *id)), Read::Value(keys.account(of.0, of.1, *id))]
        }
    }
}

/// The customer's id: of those with the last name, the one in the middle by first name, rounded up.
pub(super) fn identify(view: &mut View, of: Where, who: &Who) -> Result<u64, Stop> {
    let name = match who {
        Who::Id(id) => return Ok(*id),
        Who::LastName(name) => name,
    };
    let keys = view.layout;
    let found: Vec<Number> = view.list(keys.by_name(of.0, of.1, name))?;
    // All of them are looked at, as the specification has it.
    view.want(found.iter().map(|id| Read::Value(keys.customer(of.0, of.1, id.value as u64))))?;
    let middle = found.len().div_ceil(2).checked_sub(1).and_then(|index| found.get(index));
    middle.map(|id| id.value as u64).ok_or_else(|| Stop::Impossible(format!("nobody is called {name}")))
}
