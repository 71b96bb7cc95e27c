//! Documents: every crate says what it is, and no link leads nowhere.

use std::path::{Component, Path, PathBuf};

use super::{Complaint, Tree};

/// Every crate's root file starts with its documentation.
pub(super) fn crates(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for package in &tree.packages {
        for root in ["src/lib.rs", "src/main.rs"] {
            let path = format!("{}/{root}", package.folder);
            if tree.files.get(&path).is_some_and(|text| !text.starts_with("//! ")) {
                complaints.push(Complaint::file(
                    &path,
                    "start with a `//!` comment: what this is, and what it is not",
                ));
            }
        }
    }
    complaints
}

/// Links of documents to files of the project lead somewhere.
pub(super) fn links(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in tree.with_ending(".md") {
        let mut fenced = false;
        for (number, line) in (1..).zip(text.lines()) {
            fenced ^= line.trim_start().starts_with("```");
            for target in targets(line).filter(|_| !fenced) {
                if let Some(missing) = missing(tree, path, target) {
                    complaints.push(Complaint::at(
                        path,
                        number,
                        format!("the link leads nowhere: {missing}"),
                    ));
                }
            }
        }
    }
    complaints
}

/// What stands between `](` and `)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn missing(tree: &Tree, from: &str, target: &str) -> Option<String> {
    let target = target.split('#').next().unwrap_or(target);
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let wanted = plain(&folder.join(target))?;
    let below = format!("{wanted}/");
    let found =
        wanted.is_empty() || tree.files.keys().any(|path| *path == wanted || path.starts_with(&below));
    (!found).then_some(wanted)
}

/// The path without `.` and `..`; one that leaves the project stays as it is, so that nothing matches it.
fn plain(path: &Path) -> Option<String> {
    let mut parts = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if parts.pop() => {}
            _ => parts.push(component),
        }
    }
    parts.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_without_documentation_are_caught() {
        let mut tree =
            Tree::of(&[("crates/a/src/lib.rs", "mod a;\n"), ("crates/b/src/lib.rs", "//! What it is.\n")]);
        tree.add_package("a", "crates/a", &[]);
        tree.add_package("b", "crates/b", &[]);
        assert_eq!(crates(&tree).len(), 1);
    }

    #[test]
    fn links_that_lead_nowhere_are_caught() {
        let found =
            |text: &str| links(&Tree::of(&[("docs/a.md", text), ("docs/b.md", ""), ("src/c.rs", "")])).len();
        assert_eq!(
            found(
                "[b](b.md) [b](./b.md#part) [c](../src/c.rs) [s](../src) [w](https://example.org/x) [t](#top)"
            ),
            0
        );
        assert_eq!(found("see [x](x.md)"), 1);
        assert_eq!(found("[out](../../b.md)"), 1);
        assert_eq!(found("[one](b.md) and [two](two.md)"), 1);
        assert_eq!(found("```\n[x](x.md)\n```\n"), 0);
    }
}
