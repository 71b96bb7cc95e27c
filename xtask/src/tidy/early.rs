//! A message that leaves before the disk is done says beside it why nobody can be misled.

use super::{Complaint, Tree, source};

/// How far above the call the comment may start.
const LINES_ABOVE: usize = 6;

/// The crate that defines the calls.
const KERNEL: &str = "crates/kernel/src/";

/// Every early send or output has a comment beside it or within a few lines above it.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let calls = [".send_early(", ".output_early("];
    let mut complaints = Vec::new();
    for (path, text) in tree.rust().filter(|(path, _)| !path.starts_with(KERNEL)) {
        if !calls.iter().any(|call| text.contains(call)) {
            continue;
        }
        let tests = source::test_lines(path, text);
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = source::without_comment(line);
            if !calls.iter().any(|call| code.contains(call)) || source::within(index + 1, &tests) {
                continue;
            }
            let above = &lines[index.saturating_sub(LINES_ABOVE)..index];
            let beside = line.contains("// ");
            if !beside && !above.iter().any(|line| line.trim_start().starts_with("//")) {
                let text = format!(
                    "say within {LINES_ABOVE} lines above why this may leave before the disk is done"
                );
                complaints.push(Complaint::at(path, index + 1, text));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_sends_without_a_comment_are_caught() {
        let path = "crates/replog/src/leader.rs";
        let call = "fn f(out: &mut O) {\n    out.send_early(to, msg);\n}\n";
        assert_eq!(check(&Tree::of(&[(path, call)]))[0].line, Some(2));
        let explained = call.replace("    out", "    // Counts itself only later.\n    out");
        assert_eq!(check(&Tree::of(&[(path, &explained)])), []);
        let beside = call.replace("msg);", "msg); // Counts itself only later.");
        assert_eq!(check(&Tree::of(&[(path, &beside)])), []);
        let far = call.replace("    out", &format!("    // Too far away.\n{}    out", "    ();\n".repeat(6)));
        assert_eq!(check(&Tree::of(&[(path, &far)])).len(), 1);
        assert_eq!(check(&Tree::of(&[(path, &call.replace("send", "output"))])).len(), 1);
    }
}
