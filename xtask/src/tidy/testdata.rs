//! A transcript that no test reads proves nothing.

use std::collections::BTreeSet;

use super::{Complaint, Tree};

/// Every folder below a `testdata` is named in a Rust file of the same package.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for folder in folders(tree) {
        let Some((owner, inside)) = folder.split_once("/testdata") else { continue };
        let package = tree.package_of(&folder).map_or(owner, |package| package.folder.as_str());
        let wanted = format!("testdata{inside}");
        // Written as one path, or joined from its parts.
        let part = format!("\"{}\"", inside.trim_start_matches('/'));
        let mentions =
            |text: &str| text.contains(&wanted) || (text.contains("testdata") && text.contains(&part));
        let start = format!("{package}/");
        if !tree.rust().any(|(path, text)| path.starts_with(&start) && mentions(text)) {
            complaints
                .push(Complaint::file(&folder, format!("no Rust file of {package} mentions `{wanted}`")));
        }
    }
    complaints
}

/// `.../testdata/x` for everything below it, or `.../testdata` for files directly in it.
fn folders(tree: &Tree) -> BTreeSet<String> {
    let mut folders = BTreeSet::new();
    for path in tree.files.keys() {
        let Some((owner, inside)) = path.split_once("/testdata/") else { continue };
        match inside.split_once('/') {
            Some((first, _)) => folders.insert(format!("{owner}/testdata/{first}")),
            None => folders.insert(format!("{owner}/testdata")),
        };
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_testdata_is_caught() {
        let mut tree = Tree::of(&[
            ("crates/a/testdata/transcripts/elect.txt", ""),
            ("crates/a/tests/transcripts.rs", "walk(\"testdata/transcripts\")"),
        ]);
        tree.add_package("a", "crates/a", &[]);
        assert_eq!(check(&tree), []);
        tree.files.insert("crates/a/testdata/wire/v1.bin".to_owned(), String::new());
        assert_eq!(check(&tree).len(), 1);
        tree.files.insert("crates/a/src/wire.rs".to_owned(), "join(\"testdata\").join(\"wire\")".to_owned());
        assert_eq!(check(&tree).len(), 0);
        tree.files.remove("crates/a/src/wire.rs");
        tree.files.insert("crates/b/testdata/x.txt".to_owned(), String::new());
        assert_eq!(check(&tree).len(), 2);
    }
}
