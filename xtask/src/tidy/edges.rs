//! Which crate may depend on which: `docs/edges.txt` and the manifests must say the same.
//!
//! A line of the file is `FLOOR NAME: DEPENDENCY ...` for what ships and `dev NAME: DEPENDENCY ...` for what only its
//! tests see. Names are those of the folders under `crates/` and `examples/`. An arrow points to the same floor or down.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Package;
use super::{Complaint, Tree};

const PATH: &str = "docs/edges.txt";

#[derive(Debug, Default)]
struct Table {
    /// The floor each crate stands on.
    floors: BTreeMap<String, u32>,
    /// By crate and whether for tests only: the line and what it may depend on.
    allowed: BTreeMap<(String, bool), (usize, BTreeSet<String>)>,
}

/// Complains of every difference between the file and the manifests, and of arrows that point up.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let Some(text) = tree.files.get(PATH) else {
        return vec![Complaint::file(PATH, "is missing: it lists the allowed dependency edges")];
    };
    let mut complaints = Vec::new();
    let table = parse(text, &mut complaints);
    let actual = actual_edges(tree);
    compare(&table, &actual, &mut complaints);
    for ((name, dev), (line, dependencies)) in &table.allowed {
        for dependency in dependencies.iter().filter(|_| !dev) {
            if let (Some(own), Some(other)) = (table.floors.get(name), table.floors.get(dependency))
                && other > own
            {
                let text =
                    format!("`{name}` on floor {own} may not depend on `{dependency}` on floor {other}");
                complaints.push(Complaint::at(PATH, *line, text));
            }
        }
    }
    complaints
}

fn parse(text: &str, complaints: &mut Vec<Complaint>) -> Table {
    let mut table = Table::default();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if parse_line(&mut table, number, line).is_none() {
            let text = "write `FLOOR NAME: DEPENDENCY ...` or `dev NAME: DEPENDENCY ...`, each crate once";
            complaints.push(Complaint::at(PATH, number, text));
        }
    }
    table
}

fn parse_line(table: &mut Table, number: usize, line: &str) -> Option<()> {
    let (head, tail) = line.split_once(':')?;
    let (floor, name) = head.trim().split_once(char::is_whitespace)?;
    let name = name.trim().to_owned();
    let dev = floor == "dev";
    if !dev {
        table.floors.insert(name.clone(), floor.parse().ok()?);
    }
    let dependencies = tail.split_whitespace().map(str::to_owned).collect();
    table.allowed.insert((name, dev), (number, dependencies)).is_none().then_some(())
}

/// By crate and whether for tests only: its folder and what it depends on.
type Edges = BTreeMap<(String, bool), (String, BTreeSet<String>)>;

fn actual_edges(tree: &Tree) -> Edges {
    let mut edges = Edges::new();
    for package in &tree.packages {
        // A chore runner is no part of the graph.
        let Some(name) = short_name(package) else { continue };
        let line = |dev| (name.to_owned(), dev);
        let nothing = || (package.folder.clone(), BTreeSet::new());
        edges.entry(line(false)).or_insert_with(nothing);
        for dependency in package.dependencies.iter().filter(|dependency| dependency.local) {
            let target =
                tree.packages.iter().find(|other| other.name == dependency.name).and_then(short_name);
            let target = target.unwrap_or(&dependency.name).to_owned();
            edges.entry(line(dependency.dev)).or_insert_with(nothing).1.insert(target);
        }
    }
    edges
}

/// The name of a crate's folder; no example is named as a crate is, since both have a line in one table.
fn short_name(package: &Package) -> Option<&str> {
    ["crates/", "examples/"].iter().find_map(|place| package.folder.strip_prefix(place))
}

fn compare(table: &Table, actual: &Edges, complaints: &mut Vec<Complaint>) {
    for ((name, dev), (folder, dependencies)) in actual {
        let manifest = format!("{folder}/Cargo.toml");
        let kind = if *dev { "dev-dependency" } else { "dependency" };
        let Some((line, allowed)) = table.allowed.get(&(name.clone(), *dev)) else {
            complaints.push(Complaint::file(&manifest, format!("{PATH} has no {kind} line for `{name}`")));
            continue;
        };
        for extra in dependencies.difference(allowed) {
            let text =
                format!("the {kind} on `{extra}` is not in {PATH}: a new edge needs a decision record");
            complaints.push(Complaint::file(&manifest, text));
        }
        for unused in allowed.difference(dependencies) {
            let text = format!("`{name}` has no {kind} on `{unused}`: remove the edge");
            complaints.push(Complaint::at(PATH, *line, text));
        }
    }
    for (key, (line, _)) in table.allowed.iter().filter(|(key, _)| !actual.contains_key(*key)) {
        let text = format!("`{}` has no such dependencies, or is no crate: remove the line", key.0);
        complaints.push(Complaint::at(PATH, *line, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(edges: &str) -> Vec<String> {
        let mut tree = Tree::of(&[(PATH, edges)]);
        tree.add_package("quorate-kernel", "crates/kernel", &[("bytes", false)]);
        tree.add_package(
            "quorate-replog",
            "crates/replog",
            &[("quorate-kernel", false), ("quorate-sim", true), ("bytes", false)],
        );
        tree.add_package("quorate-sim", "crates/sim", &[]);
        tree.add_package("shop", "examples/shop", &[("quorate-replog", false)]);
        tree.add_package("xtask", "xtask", &[]);
        check(&tree).iter().map(Complaint::to_string).collect()
    }

    const GOOD: &str = "# floors\n0 kernel:\n1 replog: kernel\n5 sim:\n6 shop: replog\ndev replog: sim\n";

    #[test]
    fn a_table_that_agrees_passes() {
        assert_eq!(complaints(GOOD), [""; 0]);
    }

    #[test]
    fn new_edges_are_caught() {
        let found = complaints(&GOOD.replace("1 replog: kernel", "1 replog:"));
        assert!(found[0].contains("`kernel` is not in docs/edges.txt"), "{found:?}");
        let found = complaints(&GOOD.replace("dev replog: sim\n", ""));
        assert!(found[0].contains("no dev-dependency line for `replog`"), "{found:?}");
    }

    #[test]
    fn examples_have_edges_as_well() {
        let found = complaints(&GOOD.replace("6 shop: replog", "6 shop:"));
        let text = "the dependency on `replog` is not in docs/edges.txt: a new edge needs a decision record";
        assert_eq!(found, [format!("examples/shop/Cargo.toml: {text}")]);
        assert!(
            complaints(&GOOD.replace("6 shop: replog\n", ""))[0].contains("no dependency line for `shop`")
        );
    }

    #[test]
    fn stale_edges_and_lines_are_caught() {
        let found = complaints(&GOOD.replace("5 sim:", "5 sim: kernel"));
        assert!(found[0].contains("`sim` has no dependency on `kernel`"), "{found:?}");
        let found = complaints(&format!("{GOOD}1 ghost:\n"));
        assert!(found[0].contains("`ghost`"), "{found:?}");
    }

    #[test]
    fn arrows_that_point_up_are_caught() {
        let found = complaints(&GOOD.replace("0 kernel:", "3 kernel:"));
        assert_eq!(found, ["docs/edges.txt:3: `replog` on floor 1 may not depend on `kernel` on floor 3"]);
    }

    #[test]
    fn lines_without_meaning_are_caught() {
        assert!(complaints(&format!("{GOOD}replog -> kernel\n"))[0].contains("write `FLOOR NAME"));
        assert!(complaints(&format!("{GOOD}0 kernel:\n"))[0].contains("each crate once"));
        assert!(check(&Tree::of(&[]))[0].to_string().contains("is missing"));
    }
}
