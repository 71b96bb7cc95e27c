//! The names of keys; the table in the module's documentation lists them.

use bytes::Bytes;

fn key(name: &str, numbers: &[u64]) -> Bytes {
    let mut text = format!("tpcc:{name}");
    for number in numbers {
        text.push(':');
        text += &number.to_string();
    }
    text.into()
}

macro_rules! keys {
    ($($(#[$doc:meta])* $function:ident $name:literal ($($number:ident),*);)*) => {
        $($(#[$doc])* pub(super) fn $function($($number: u64),*) -> Bytes {
            key($name, &[$($number),*])
        })*
    };
}

keys! {
    item "i" (item);
    warehouse "w" (warehouse);
    warehouse_sum "wy" (warehouse);
    district "d" (warehouse, district);
    district_sum "dy" (warehouse, district);
    next_order "dn" (warehouse, district);
    oldest_order "do" (warehouse, district);
    customer "c" (warehouse, district, customer);
    account "ca" (warehouse, district, customer);
    newest_order "co" (warehouse, district, customer);
    stock "s" (warehouse, item);
    order "o" (warehouse, district, order);
    new_order "n" (warehouse, district, order);
    lines "l" (warehouse, district, order);
    history "h" (warehouse, district);
}

/// Customers by last name.
pub(super) fn by_name(warehouse: u64, district: u64, name: &str) -> Bytes {
    format!("tpcc:cn:{warehouse}:{district}:{name}").into()
}
