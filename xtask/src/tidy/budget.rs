//! How long files and functions may be. Tests are counted apart: they may be long, but not endless.

use syn::visit::Visit;

use super::ratchet::{self, Exception};
use super::{Complaint, Tree, source};

/// From here on a file needs an exception.
const FILE_LINES_SOFT: usize = 500;
/// From here on no exception helps.
const FILE_LINES_HARD: usize = 800;
/// A file of tests alone has this limit only.
const TEST_FILE_LINES_HARD: usize = 1000;
/// From here on a function needs an exception.
const FUNCTION_LINES: usize = 70;

/// Complains of files that are too long.
pub(super) fn files(tree: &Tree) -> Vec<Complaint> {
    let exceptions = ratchet::exceptions(tree);
    let granted = |wanted: &str| {
        exceptions.iter().find_map(|(_, exception)| match exception {
            Exception::File { path, lines } if path == wanted => Some(*lines),
            _ => None,
        })
    };
    let mut complaints = Vec::new();
    for (path, count) in long_files(tree) {
        let limit = if source::is_test_file(path) { TEST_FILE_LINES_HARD } else { FILE_LINES_HARD };
        if count > limit {
            complaints
                .push(Complaint::file(path, format!("{count} lines, the hard limit is {limit}: split it")));
        } else if !source::is_test_file(path) && granted(path).is_none_or(|lines| count > lines) {
            complaints.push(Complaint::file(
                path,
                format!(
                    "{count} lines, the budget is {FILE_LINES_SOFT}: split it, or say why not in {}",
                    ratchet::PATH
                ),
            ));
        }
    }
    complaints
}

/// Complains of functions that are too long.
pub(super) fn functions(tree: &Tree) -> Vec<Complaint> {
    let exceptions = ratchet::exceptions(tree);
    let granted = |long: &LongFunction| {
        exceptions.iter().any(|(_, exception)| match exception {
            Exception::Function { path, name, lines } => {
                *path == long.path && *name == long.name && long.count <= *lines
            }
            _ => false,
        })
    };
    let too_long = long_functions(tree).into_iter().filter(|long| !granted(long));
    too_long
        .map(|long| {
            let text = format!("`{}` has {} lines, the limit is {FUNCTION_LINES}", long.name, long.count);
            Complaint::at(&long.path, long.line, text)
        })
        .collect()
}

/// Files over the soft budget with their lines, those of test modules inside not counted.
pub(super) fn long_files(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    let counted = tree.rust().chain(tree.with_ending(".py")).map(|(path, text)| {
        let count = text.lines().count();
        if source::is_test_file(path) || count <= FILE_LINES_SOFT {
            return (path, count);
        }
        let tests: usize = source::test_lines(path, text).into_iter().map(Iterator::count).sum();
        (path, count - tests)
    });
    counted.filter(|(_, count)| *count > FILE_LINES_SOFT)
}

/// A function over the budget.
pub(super) struct LongFunction {
    pub(super) path: String,
    pub(super) name: String,
    line: usize,
    count: usize,
}

/// Every function over the budget, tests included.
pub(super) fn long_functions(tree: &Tree) -> Vec<LongFunction> {
    let mut found = Vec::new();
    for (path, text) in tree.rust() {
        // The compiler complains of what cannot be parsed.
        let Ok(file) = syn::parse_file(text) else { continue };
        let mut finder = Functions { path, found: &mut found };
        finder.visit_file(&file);
    }
    found
}

struct Functions<'a> {
    path: &'a str,
    found: &'a mut Vec<LongFunction>,
}

impl Functions<'_> {
    fn judge(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let line = *source::lines_of(signature).start();
        let count = *source::lines_of(body).end() - line + 1;
        if count > FUNCTION_LINES {
            let (path, name) = (self.path.to_owned(), signature.ident.to_string());
            self.found.push(LongFunction { path, name, line, count });
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.judge(&function.sig, &function.block);
        syn::visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.judge(&function.sig, &function.block);
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(body) = &function.default {
            self.judge(&function.sig, body);
        }
        syn::visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        "// line\n".repeat(count)
    }

    fn function(lines: usize) -> String {
        format!("struct S;\nimpl S {{\n    fn long() {{\n{}    }}\n}}\n", "        ();\n".repeat(lines - 2))
    }

    #[test]
    fn long_files_are_caught_and_excused_up_to_a_number() {
        let excuse = "file a.rs 510 a table\n";
        assert_eq!(files(&Tree::of(&[("a.rs", &lines(500))])), []);
        assert_eq!(files(&Tree::of(&[("a.rs", &lines(501))])).len(), 1);
        assert_eq!(files(&Tree::of(&[("a.rs", &lines(510)), (ratchet::PATH, excuse)])), []);
        assert_eq!(files(&Tree::of(&[("a.rs", &lines(511)), (ratchet::PATH, excuse)])).len(), 1);
        let hopeless = "file a.rs 900 a table\n";
        assert_eq!(files(&Tree::of(&[("a.rs", &lines(801)), (ratchet::PATH, hopeless)])).len(), 1);
    }

    #[test]
    fn tests_are_counted_apart() {
        let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(490), lines(100));
        assert_eq!(files(&Tree::of(&[("crates/a/src/a.rs", &with_tests)])), []);
        assert_eq!(files(&Tree::of(&[("crates/a/tests/a.rs", &lines(900))])), []);
        assert_eq!(files(&Tree::of(&[("crates/a/tests/a.rs", &lines(1001))])).len(), 1);
    }

    #[test]
    fn long_functions_are_caught_and_excused_up_to_a_number() {
        assert_eq!(functions(&Tree::of(&[("a.rs", &function(70))])), []);
        let found = functions(&Tree::of(&[("a.rs", &function(71))]));
        assert_eq!(found, [Complaint::at("a.rs", 3, "`long` has 71 lines, the limit is 70")]);
        let excuse = "function a.rs long 71 one match\n";
        assert_eq!(functions(&Tree::of(&[("a.rs", &function(71)), (ratchet::PATH, excuse)])), []);
        assert_eq!(functions(&Tree::of(&[("a.rs", &function(72)), (ratchet::PATH, excuse)])).len(), 1);
    }
}
