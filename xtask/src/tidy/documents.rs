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

/// Links of documents to files of the project lead somewhere, and so do paths that stand in backticks.
pub(super) fn links(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (path, text) in tree.with_ending(".md") {
        let mut fenced = false;
        for (number, line) in (1..).zip(text.lines()) {
            fenced ^= line.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            let links = targets(line).filter_map(|target| missing(tree, path, target));
            let links = links.map(|missing| format!("the link leads nowhere: {missing}"));
            let paths = named(line).filter(|path| !exists(tree, path));
            let paths = paths.map(|path| format!("there is nothing at this path: {path}"));
            complaints.extend(links.chain(paths).map(|text| Complaint::at(path, number, text)));
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

/// Where paths from the top of the project begin.
const TOPS: [&str; 7] = ["bench/", "crates/", "docs/", "examples/", "fuzz/", "tests/", "xtask/"];

/// What stands in backticks and looks like a path from the top: `*` stands for any part of a name, `{a,b}` for one of several.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let in_path = |letter: char| letter.is_ascii_alphanumeric() || "/._-*{,}".contains(letter);
    quoted.filter(move |text| TOPS.iter().any(|top| text.starts_with(top)) && text.chars().all(in_path))
}

/// Whether a file or folder is there for each of what a path names.
fn exists(tree: &Tree, path: &str) -> bool {
    let (before, among, after) =
        match path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
            Some((before, (among, after))) => (before, among, after),
            None => (path.trim_end_matches('/'), "", ""),
        };
    among.split(',').map(|one| format!("{before}{one}{after}")).all(|path| match path.split_once('*') {
        Some((first, last)) => tree.files.keys().any(|file| file.starts_with(first) && file.ends_with(last)),
        None => {
            tree.files.contains_key(&path)
                || tree.files.keys().any(|file| file.starts_with(&format!("{path}/")))
        }
    })
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

    #[test]
    fn paths_that_name_nothing_are_caught() {
        let found = |text: &str| {
            let files = ["crates/a/src/one.rs", "crates/a/src/two.rs", "crates/a/src/three/mod.rs"];
            let files: Vec<_> =
                files.map(|path| (path, "")).into_iter().chain([("docs/a.md", text)]).collect();
            links(&Tree::of(&files)).len()
        };
        assert_eq!(found("`crates/a/src/one.rs`, `crates/a/src`, `crates/a/src/`, `docs/*.md`"), 0);
        assert_eq!(found("`crates/a/src/{one,two}.rs` and `crates/a/src/{one.rs,three}`"), 0);
        assert_eq!(found("`cargo build`, `crates/b --flag`, `src/b.rs`, crates/b and `target/crates/b`"), 0);
        assert_eq!(found("`crates/a/src/four.rs` moved, and `crates/a/t*.rs` is in another folder"), 2);
        assert_eq!(found("`crates/a/src/{one,four}.rs`"), 1);
        assert_eq!(found("```\n`crates/b`\n```\n"), 0);
    }
}
