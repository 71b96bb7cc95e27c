//! `cargo run`, as the README has it, finds the server.

use super::{Complaint, Tree};

/// The default members of the workspace have one program together, so that `cargo run` needs no word which.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let programs: Vec<&str> =
        tree.packages.iter().flat_map(|package| &package.programs).map(String::as_str).collect();
    if programs == ["quorate"] {
        return Vec::new();
    }
    let text =
        format!("`cargo run` must mean `quorate`, and may choose from {programs:?}: see `default-members`");
    vec![Complaint::file("Cargo.toml", text)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_program_is_caught() {
        let mut tree = Tree::of(&[]);
        tree.add_package("quorate", "crates/cli", &[]);
        tree.add_package("chirp", "examples/chirp", &[]);
        assert_eq!(check(&tree).len(), 1);
        tree.packages[0].programs.push("quorate".to_owned());
        assert!(check(&tree).is_empty());
        tree.packages[1].programs.push("chirp".to_owned());
        assert_eq!(check(&tree).len(), 1);
    }
}
