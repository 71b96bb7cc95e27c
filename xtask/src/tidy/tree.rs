//! What the rules look at: the text files of the project and what cargo says about its packages.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The project as the rules see it.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Text of every file that git tracks or would add, by path from the top; files that are not text are absent.
    pub(crate) files: BTreeMap<String, String>,
    /// Members of the workspace.
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// The name in its manifest.
    pub(crate) name: String,
    /// Where it stands, from the top.
    pub(crate) folder: String,
    /// What `cargo run` may choose from, if the workspace is asked and not a package: none, if it is no default member.
    pub(crate) programs: Vec<String>,
    /// What it depends on.
    pub(crate) dependencies: Vec<Dependency>,
}

/// An entry of a package's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package it names.
    pub(crate) name: String,
    /// Whether only tests, examples and benchmarks see it.
    pub(crate) dev: bool,
    /// Whether it is a member of this workspace.
    pub(crate) local: bool,
}

impl Tree {
    /// Reads the project under `root`, asking git for the files and `cargo` for the packages.
    pub(crate) fn load(root: &Path, mut cargo: Command) -> Result<Tree> {
        let listing = output(Command::new("git").current_dir(root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut files = BTreeMap::new();
        for path in listing.split('\0').filter(|path| !path.is_empty()) {
            // Deleted files are listed until the deletion is committed.
            let Ok(bytes) = std::fs::read(root.join(path)) else { continue };
            if let Ok(text) = String::from_utf8(bytes) {
                files.insert(path.to_owned(), text);
            }
        }
        let metadata = output(cargo.current_dir(root).args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ]))?;
        let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata is not JSON")?;
        let packages = packages(&metadata).context("cargo metadata has an unexpected shape")?;
        Ok(Tree { files, packages })
    }

    /// Source files in Rust.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.with_ending(".rs")
    }

    /// Files whose path ends like this.
    pub(crate) fn with_ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The package a file belongs to.
    pub(crate) fn package_of(&self, path: &str) -> Option<&Package> {
        self.packages.iter().find(|package| {
            path.strip_prefix(package.folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
        })
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Tree { files, packages: Vec::new() }
    }

    #[cfg(test)]
    pub(crate) fn add_package(&mut self, name: &str, folder: &str, dependencies: &[(&str, bool)]) {
        let dependencies = dependencies
            .iter()
            .map(|(name, dev)| Dependency {
                name: (*name).to_owned(),
                dev: *dev,
                local: name.starts_with("quorate"),
            })
            .collect();
        let (name, folder) = (name.to_owned(), folder.to_owned());
        self.packages.push(Package { name, folder, programs: Vec::new(), dependencies });
    }
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("could not start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} wrote something that is not text"))
}

fn packages(metadata: &Value) -> Option<Vec<Package>> {
    let root = metadata["workspace_root"].as_str()?;
    let default = metadata["workspace_default_members"].as_array()?;
    let packages = metadata["packages"].as_array()?.iter();
    packages.map(|package| package_from(root, package, default.contains(&package["id"]))).collect()
}

fn package_from(root: &str, package: &Value, is_default: bool) -> Option<Package> {
    let manifest = package["manifest_path"].as_str()?;
    let folder = manifest.strip_prefix(root)?.strip_prefix('/')?.strip_suffix("/Cargo.toml")?;
    let dependencies =
        package["dependencies"].as_array()?.iter().map(dependency_from).collect::<Option<_>>()?;
    let targets = package["targets"].as_array()?.iter().filter(|_| is_default);
    let is_program =
        |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"bin".into()));
    let programs = targets.filter(is_program).map(|target| target["name"].as_str().map(str::to_owned));
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        folder: folder.to_owned(),
        programs: programs.collect::<Option<_>>()?,
        dependencies,
    })
}

fn dependency_from(dependency: &Value) -> Option<Dependency> {
    Some(Dependency {
        name: dependency["name"].as_str()?.to_owned(),
        dev: dependency["kind"].as_str() == Some("dev"),
        local: dependency["path"].is_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_from_cargo_metadata() {
        let text = r#"{"workspace_root": "/w", "workspace_default_members": ["p#1"], "packages": [{"id": "p#1", "name": "p",
            "manifest_path": "/w/crates/p/Cargo.toml", "targets": [{"kind": ["lib"], "name": "p"}, {"kind": ["bin"], "name": "pp"}],
            "dependencies": [{"name": "q", "kind": null, "path": "/w/crates/q"}, {"name": "r", "kind": "dev"}]}]}"#;
        let found = packages(&serde_json::from_str(text).unwrap()).unwrap();
        let dependency = |name: &str, dev, local| Dependency { name: name.to_owned(), dev, local };
        let expected = Package {
            name: "p".to_owned(),
            folder: "crates/p".to_owned(),
            programs: vec!["pp".to_owned()],
            dependencies: vec![dependency("q", false, true), dependency("r", true, false)],
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn unexpected_metadata_is_refused() {
        assert_eq!(packages(&serde_json::json!({"workspace_root": "/w", "packages": [{"name": "p"}]})), None);
    }

    #[test]
    fn a_file_belongs_to_the_package_of_its_folder_only() {
        let mut tree = Tree::of(&[]);
        tree.add_package("a", "crates/a", &[]);
        assert!(tree.package_of("crates/a/src/lib.rs").is_some());
        assert!(tree.package_of("crates/ab/src/lib.rs").is_none());
    }
}
