//! Which libraries may be used where, and that each has its reason.

use super::tree::{Dependency, Package};
use super::{Complaint, Tree};

/// Crates that hold protocols and their ground: no clock, socket, file or thread may be named there.
pub(super) const MACHINES: &[&str] = &[
    "kernel",
    "quorum",
    "api",
    "store",
    "replog",
    "commit",
    "membership",
    "values",
    "shard",
    "buckets",
    "groups",
    "node",
    "resp",
];

/// All that a machine crate may take from outside.
const MACHINE_LIBRARIES: &[&str] = &["bytes", "serde", "postcard", "crc32fast", "itoa", "libm", "memchr"];

/// Libraries that open sockets or files, and the only crates that may do so through them.
const CONFINED: &[&str] = &["mio", "socket2", "hyper", "lsm-tree", "tokio"];
const CONFINED_TO: &[&str] = &["host", "engine", "bench", "cli"];

/// Where the reason of each library stands.
const REASONS: &str = "docs/decisions/0002-dependencies.md";

/// Machine crates are `no_std` and depend on little.
pub(super) fn machines(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for name in MACHINES {
        let Some(package) = package_named(tree, name) else { continue };
        let root = format!("{}/src/lib.rs", package.folder);
        if !tree.files.get(&root).is_some_and(|text| text.lines().any(|line| line.trim() == "#![no_std]")) {
            complaints.push(Complaint::file(&root, "a machine crate starts with `#![no_std]`"));
        }
        for dependency in shipped(package) {
            let fine = if dependency.local {
                dependency.name.strip_prefix("quorate-").is_some_and(|other| MACHINES.contains(&other))
            } else {
                MACHINE_LIBRARIES.contains(&dependency.name.as_str())
            };
            if !fine {
                let text = format!("a machine crate may not depend on `{}`", dependency.name);
                complaints.push(Complaint::file(&manifest(package), text));
            }
        }
        complaints.extend(std_in(tree, package));
    }
    complaints
}

/// `extern crate std` outside tests would undo `no_std` in silence.
fn std_in(tree: &Tree, package: &Package) -> Vec<Complaint> {
    let folder = format!("{}/src/", package.folder);
    let mut complaints = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| path.starts_with(&folder)) {
        let mut before = "";
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().starts_with("extern crate std") && before != "#[cfg(test)]" {
                complaints.push(Complaint::at(
                    path,
                    number,
                    "`std` is for tests alone: put `#[cfg(test)]` above it",
                ));
            }
            before = line.trim();
        }
    }
    complaints
}

/// Libraries that touch the outside world stay at the edges.
pub(super) fn confined(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for package in &tree.packages {
        let allowed = package.folder.strip_prefix("crates/").is_some_and(|name| CONFINED_TO.contains(&name));
        for dependency in shipped(package).filter(|_| !allowed) {
            if CONFINED.contains(&dependency.name.as_str()) {
                let text = format!("`{}` is for {} alone", dependency.name, CONFINED_TO.join(", "));
                complaints.push(Complaint::file(&manifest(package), text));
            }
        }
    }
    complaints
}

/// Every library from outside has a line with its reason.
pub(super) fn reasons(tree: &Tree) -> Vec<Complaint> {
    let text = tree.files.get(REASONS).map_or("", String::as_str);
    let mut complaints = Vec::new();
    for package in &tree.packages {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.local) {
            if !text.contains(&format!("`{}`", dependency.name)) {
                let text = format!("`{}` has no line in {REASONS}", dependency.name);
                complaints.push(Complaint::file(&manifest(package), text));
            }
        }
    }
    complaints
}

fn package_named<'a>(tree: &'a Tree, name: &str) -> Option<&'a Package> {
    tree.packages.iter().find(|package| package.folder.strip_prefix("crates/") == Some(name))
}

fn shipped(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|dependency| !dependency.dev)
}

fn manifest(package: &Package) -> String {
    format!("{}/Cargo.toml", package.folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(source: &str, dependencies: &[(&str, bool)]) -> Tree {
        let mut tree = Tree::of(&[("crates/kernel/src/lib.rs", source)]);
        tree.add_package("quorate-kernel", "crates/kernel", dependencies);
        tree
    }

    #[test]
    fn a_pure_machine_crate_passes() {
        let source = "//! Doc.\n#![no_std]\n\n#[cfg(test)]\nextern crate std;\n";
        assert_eq!(
            machines(&kernel(source, &[("bytes", false), ("quorate-store", false), ("proptest", true)])),
            []
        );
    }

    #[test]
    fn impure_machine_crates_are_caught() {
        assert_eq!(machines(&kernel("//! Doc.\n", &[])).len(), 1);
        assert_eq!(machines(&kernel("#![no_std]\nextern crate std;\n", &[])).len(), 1);
        assert_eq!(machines(&kernel("#![no_std]\n", &[("tracing", false)])).len(), 1);
        assert_eq!(machines(&kernel("#![no_std]\n", &[("quorate-host", false)])).len(), 1);
    }

    #[test]
    fn sockets_outside_the_edges_are_caught() {
        assert_eq!(confined(&kernel("", &[("mio", false)])).len(), 1);
        let mut tree = Tree::of(&[]);
        tree.add_package("quorate-host", "crates/host", &[("mio", false)]);
        assert_eq!(confined(&tree), []);
    }

    #[test]
    fn libraries_without_a_reason_are_caught() {
        let mut tree = kernel("", &[("bytes", false), ("serde", true), ("quorate-store", false)]);
        tree.files.insert(REASONS.to_owned(), "| `bytes` | shared buffers |\n".to_owned());
        let found = reasons(&tree);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("`serde` has no line"));
    }
}
