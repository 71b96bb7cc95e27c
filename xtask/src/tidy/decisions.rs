//! Decision records are numbered without gaps and listed in their index.

use super::{Complaint, Tree};

const FOLDER: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";

/// Complains of gaps, doubles, wrong names and records the index does not list.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let index = tree.files.get(INDEX).map_or("", String::as_str);
    let mut complaints = Vec::new();
    let mut expected = 1;
    let records =
        tree.files.keys().filter_map(|path| path.strip_prefix(FOLDER)).filter(|name| *name != "README.md");
    for name in records {
        let path = format!("{FOLDER}{name}");
        let number = name.split_once('-').filter(|(digits, _)| digits.len() == 4);
        let Some(number) = number.and_then(|(digits, _)| digits.parse::<u32>().ok()) else {
            complaints.push(Complaint::file(&path, "name it like `0001-what-was-decided.md`"));
            continue;
        };
        if number != expected {
            let text =
                format!("number {number:04} stands where {expected:04} is expected: no gaps, no doubles");
            complaints.push(Complaint::file(&path, text));
        }
        expected = number + 1;
        if !index.contains(&format!("({name})")) {
            complaints.push(Complaint::file(INDEX, format!("does not list [{name}]({name})")));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str], index: &str) -> usize {
        let mut tree = Tree::of(&[(INDEX, index)]);
        for name in names {
            tree.files.insert(format!("{FOLDER}{name}"), String::new());
        }
        check(&tree).len()
    }

    #[test]
    fn gaps_doubles_and_unlisted_records_are_caught() {
        let index = "[a](0001-a.md) [b](0002-b.md) [b](0002-c.md) [c](0003-c.md)";
        assert_eq!(found(&["0001-a.md", "0002-b.md"], index), 0);
        assert_eq!(found(&["0001-a.md", "0003-c.md"], index), 1);
        assert_eq!(found(&["0001-a.md", "0002-b.md", "0002-c.md"], index), 1);
        assert_eq!(found(&["0001-a.md", "notes.md"], index), 1);
        assert_eq!(found(&["0001-a.md"], ""), 1);
    }
}
