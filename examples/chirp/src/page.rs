//! The page as HTML.

use crate::{Post, TEXT_LENGTH_MAX, User};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:2em auto;padding:0 1em;color:#222}\
    h1 a{color:inherit;text-decoration:none}form{margin:.5em 0}form.inline{display:inline}input,button{font:inherit;padding:.2em .5em}\
    input[name=text]{width:75%}li{margin:.4em 0}ul{padding-left:0;list-style:none}.when{color:#777}.error{color:#a00}\
    p.text{margin:0;overflow-wrap:anywhere;white-space:pre-wrap}";

/// What a page about a user shows.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) user: User,
    /// What those whom the user follows have posted.
    pub(crate) timeline: Vec<Post>,
    /// What the user has posted.
    pub(crate) own: Vec<Post>,
    pub(crate) follows: Vec<User>,
}

/// Text that stands for itself, whoever wrote it.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // No page may hold it.
            '\0' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

fn frame(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{}</title><style>{STYLE}</style></head>\n<body><h1><a href=\"/\">Chirp</a></h1>\n{body}</body></html>\n",
        escape(title)
    )
}

/// Where one says who one is.
pub(crate) fn start() -> String {
    let body = "<form action=\"/\" method=\"get\"><label>Who are you? <input name=\"user\" autofocus required></label> \
                <button>Go</button></form>\n";
    frame("Chirp", body)
}

/// What went wrong, and a way back.
pub(crate) fn error(why: &str, user: Option<&User>) -> String {
    let back = user.map_or_else(|| "/".to_owned(), address);
    let body = format!(
        "<p class=\"error\" role=\"alert\">{}</p>\n<p><a href=\"{back}\">Back</a></p>\n",
        escape(why)
    );
    frame("Chirp: error", &body)
}

/// Where the page about a user is. A name needs no escapes.
pub(crate) fn address(user: &User) -> String {
    format!("/?user={user}")
}

/// The page about a user.
pub(crate) fn user(shown: &Shown, now_ms: u64) -> String {
    let user = &shown.user;
    let hidden = format!("<input type=\"hidden\" name=\"user\" value=\"{user}\">");
    let mut body = format!(
        "<p>You are <b>{user}</b>. <a href=\"{}\">Refresh</a></p>\n\
         <form action=\"/post\" method=\"post\">{hidden}<input name=\"text\" aria-label=\"What is new?\" \
         placeholder=\"What is new? {TEXT_LENGTH_MAX} characters at most\" required> <button>Post</button></form>\n\
         <form action=\"/follow\" method=\"post\">{hidden}<input name=\"other\" aria-label=\"Whom to follow\" \
         placeholder=\"somebody\" required> <button>Follow</button></form>\n",
        address(user)
    );
    body += &section("Timeline", "Nothing yet: follow somebody who posts.", &shown.timeline, now_ms);
    body += &section("Your posts", "Nothing yet.", &shown.own, now_ms);
    body += "<h2>You follow</h2>\n<ul>\n";
    for other in &shown.follows {
        body += &format!(
            "<li><a href=\"{}\">{other}</a> <form class=\"inline\" action=\"/unfollow\" method=\"post\">{hidden}\
             <input type=\"hidden\" name=\"other\" value=\"{other}\"><button>Unfollow</button></form></li>\n",
            address(other)
        );
    }
    body += "</ul>\n";
    frame(&format!("Chirp: {user}"), &body)
}

fn section(title: &str, nothing: &str, posts: &[Post], now_ms: u64) -> String {
    let mut text = format!("<h2>{title}</h2>\n");
    if posts.is_empty() {
        return text + &format!("<p>{nothing}</p>\n");
    }
    text += "<ul>\n";
    for post in posts {
        text += &format!(
            "<li><b>{}</b> <span class=\"when\">#{}, {}</span><p class=\"text\">{}</p></li>\n",
            post.author,
            post.number,
            age(post.at_ms, now_ms),
            escape(&post.text)
        );
    }
    text + "</ul>\n"
}

/// How long ago something was, in words.
pub(crate) fn age(at_ms: u64, now_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(at_ms) / 1_000;
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..86_400 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_write_is_never_markup() {
        let user: User = "a".parse().unwrap();
        let text = "<script>alert('1')</script> & \"so\" on\0".to_owned();
        let post = Post { author: user.clone(), number: 1, at_ms: 0, text };
        let shown = Shown { user: user.clone(), timeline: vec![post], own: Vec::new(), follows: Vec::new() };
        let page = self::user(&shown, 61_000);
        assert!(
            page.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;so&quot; on\u{fffd}"),
            "{page}"
        );
        assert!(!page.contains("<script") && page.contains("1 min ago"), "{page}");
        assert!(error("<b>", Some(&user)).contains("&lt;b&gt;"));
    }

    #[test]
    fn ages_are_told_in_the_unit_that_fits() {
        let told = [0, 59_999, 60_000, 3_600_000, 86_400_000].map(|ms| age(0, ms));
        assert_eq!(told, ["0 s ago", "59 s ago", "1 min ago", "1 h ago", "1 d ago"]);
        assert_eq!(age(5, 0), "0 s ago");
    }
}
