//! Lints hold everywhere, and each exception says why.

use super::{Complaint, Tree};

/// Every member takes the lints of the workspace.
pub(super) fn workspace_lints(tree: &Tree) -> Vec<Complaint> {
    let inherits = |text: &str| {
        text.split_once("[lints]").is_some_and(|(_, rest)| rest.trim_start().starts_with("workspace = true"))
    };
    let manifests = tree.packages.iter().map(|package| format!("{}/Cargo.toml", package.folder));
    manifests
        .filter(|manifest| !tree.files.get(manifest).is_some_and(|text| inherits(text)))
        .map(|manifest| Complaint::file(&manifest, "add `[lints]` with `workspace = true`"))
        .collect()
}

/// Every `allow` and `expect` of a lint has a reason.
pub(super) fn allow_reasons(tree: &Tree) -> Vec<Complaint> {
    let openings = ["#[allow(", "#![allow(", "#[expect(", "#![expect("];
    let mut complaints = Vec::new();
    for (path, text) in tree.rust() {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if !openings.iter().any(|opening| line.trim_start().starts_with(opening)) {
                continue;
            }
            let attribute = attribute_from(&lines[index..]);
            if !attribute.contains("reason =") {
                let text = "say why: `#[expect(lint, reason = \"...\")]`";
                complaints.push(Complaint::at(path, index + 1, text));
            }
        }
    }
    complaints
}

/// The attribute that starts in the first line, up to the line that closes it.
fn attribute_from(lines: &[&str]) -> String {
    let last = lines.iter().position(|line| line.trim_end().ends_with(")]")).unwrap_or(0);
    lines[..=last].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_without_the_lints_is_caught() {
        let mut tree = Tree::of(&[("crates/a/Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n")]);
        tree.add_package("a", "crates/a", &[]);
        assert_eq!(workspace_lints(&tree), []);
        tree.files.insert("crates/a/Cargo.toml".to_owned(), "[package]\n".to_owned());
        assert_eq!(workspace_lints(&tree).len(), 1);
    }

    #[test]
    fn exceptions_without_a_reason_are_caught() {
        let good = "#[expect(\n    clippy::x,\n    reason = \"y\"\n)]\nfn a() {}\n#[allow(z, reason = \"w\")]\nfn b() {}\n";
        assert_eq!(allow_reasons(&Tree::of(&[("a.rs", good)])), []);
        let bad = "fn a() {}\n\n#[allow(dead_code)]\nfn b() {}\n";
        assert_eq!(allow_reasons(&Tree::of(&[("a.rs", bad)]))[0].line, Some(3));
        assert_eq!(allow_reasons(&Tree::of(&[("a.rs", "#[expect(dead_code)]\nfn b() {}\n")])).len(), 1);
    }
}
