//! The names of keys; the table in the module's documentation lists them.

use bytes::Bytes;

use super::Layout;

impl Layout {
    fn key(self, name: &str, warehouse: u64, rest: &[u64]) -> Bytes {
        let mut text = self.stem(name, warehouse);
        for number in rest {
            text.push(':');
            text += &number.to_string();
        }
        text.into()
    }

    fn stem(self, name: &str, warehouse: u64) -> String {
        match self {
            Layout::Together => format!("tpcc:{name}:{{{warehouse}}}"),
            Layout::Spread => format!("tpcc:{name}:{warehouse}"),
        }
    }

    /// An item, as the warehouse sees it that somebody orders at.
    pub(super) fn item(self, warehouse: u64, item: u64) -> Bytes {
        match self {
            Layout::Together => self.key("i", warehouse, &[item]),
            Layout::Spread => format!("tpcc:i:{item}").into(),
        }
    }

    /// An item, everywhere.
    pub(super) fn copies(self, warehouses: u64, item: u64) -> impl Iterator<Item = Bytes> {
        let count = if self == Layout::Together { warehouses } else { 1 };
        (1..=count).map(move |warehouse| self.item(warehouse, item))
    }

    /// Customers by last name.
    pub(super) fn by_name(self, warehouse: u64, district: u64, name: &str) -> Bytes {
        (self.stem("cn", warehouse) + &format!(":{district}:{name}")).into()
    }
}

macro_rules! keys {
    ($($function:ident $name:literal ($($number:ident),*);)*) => {
        impl Layout {
            $(pub(super) fn $function(self, warehouse: u64, $($number: u64),*) -> Bytes {
                self.key($name, warehouse, &[$($number),*])
            })*
        }
    };
}

keys! {
    warehouse "w" ();
    warehouse_sum "wy" ();
    district "d" (district);
    district_sum "dy" (district);
    next_order "dn" (district);
    oldest_order "do" (district);
    customer "c" (district, customer);
    account "ca" (district, customer);
    newest_order "co" (district, customer);
    stock "s" (item);
    order "o" (district, order);
    new_order "n" (district, order);
    lines "l" (district, order);
    history "h" (district);
}
