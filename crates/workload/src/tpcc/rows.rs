//! Rows as text: fields with `|` between them.

use bytes::Bytes;

/// A field of a row.
pub(super) trait Field: Sized {
    fn write(&self, out: &mut String);
    fn read(text: &str) -> Option<Self>;
}

macro_rules! number_fields {
    ($($type:ty),*) => {
        $(impl Field for $type {
            fn write(&self, out: &mut String) {
                *out += &self.to_string();
            }
            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        })*
    };
}

number_fields!(u64, i64);

impl Field for String {
    fn write(&self, out: &mut String) {
        debug_assert!(!self.contains('|'), "the separator stands in no text");
        *out += self;
    }
    fn read(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

/// Nothing is an empty field.
impl Field for Option<u64> {
    fn write(&self, out: &mut String) {
        if let Some(number) = self {
            number.write(out);
        }
    }
    fn read(text: &str) -> Option<Self> {
        if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
    }
}

/// A row of a table.
pub(super) trait Row: Sized {
    fn encode(&self) -> Bytes;
    fn decode(text: &[u8]) -> Option<Self>;
}

macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub(super) struct $name { $(pub(super) $field: $type),* }

            impl Row for $name {
                fn encode(&self) -> Bytes {
                    let mut out = String::new();
                    $(
                        self.$field.write(&mut out);
                        out.push('|');
                    )*
                    out.pop();
                    out.into()
                }
                fn decode(text: &[u8]) -> Option<Self> {
                    let mut fields = std::str::from_utf8(text).ok()?.split('|');
                    let row = $name { $($field: <$type as Field>::read(fields.next()?)?),* };
                    fields.next().is_none().then_some(row)
                }
            }
        )*
    };
}

rows! {
    /// A number alone.
    Number { value: i64 }
    Item { image: u64, name: String, price: i64, data: String }
    /// What a warehouse and a district have in common: name, address and tax.
    Place { name: String, street_1: String, street_2: String, city: String, state: String, zip: String, tax: u64 }
    Customer {
        first: String, middle: String, last: String, street_1: String, street_2: String, city: String,
        state: String, zip: String, phone: String, since: u64, credit: String, credit_limit: i64, discount: u64,
    }
    Account { balance: i64, paid: i64, payments: u64, deliveries: u64, data: String }
    /// `districts` holds information for each district, one after the other.
    Stock {
        quantity: i64, sold: u64, orders: u64, remote_orders: u64, data: String,
        districts: String,
    }
    Order { customer: u64, entered: u64, carrier: Option<u64>, lines: u64, is_all_local: u64 }
    Line { item: u64, supplier: u64, delivered: Option<u64>, quantity: u64, amount: i64, district: String }
    Payment {
        customer: u64, customer_district: u64, customer_warehouse: u64, district: u64, warehouse: u64, at: u64,
        amount: i64, data: String,
    }
}

/// Characters of a stock's information for a district.
pub(super) const DISTRICT_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() {
        let order = Order { customer: 7, entered: 1, carrier: None, lines: 5, is_all_local: 1 };
        assert_eq!(order.encode(), "7|1||5|1");
        assert_eq!(Order::decode(&order.encode()), Some(order));
        let account =
            Account { balance: -1_000, paid: 1_000, payments: 1, deliveries: 0, data: String::new() };
        assert_eq!(Account::decode(&account.encode()), Some(account));
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for text in ["", "7|1||5", "7|1||5|1|2", "7|1|x|5|1", "|1||5|1"] {
            assert_eq!(Order::decode(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Number::decode(b"\xff"), None);
    }
}
