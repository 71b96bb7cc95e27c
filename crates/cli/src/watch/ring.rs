//! The ring as a circle: an arc for each group, and who leads which bucket.

use std::f64::consts::{FRAC_PI_2, TAU};

use quorate_api::SLOT_COUNT;
use quorate_node::{BucketStatus, GroupStatus};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::canvas::{Canvas, Context, Points};

/// One after the other for groups in the order of the ring.
const COLORS: [Color; 6] =
    [Color::Cyan, Color::Yellow, Color::Green, Color::Magenta, Color::LightBlue, Color::LightRed];
/// From the centre of a circle of radius 1 to the names of groups, and of leaders.
const NAMES_AT: f64 = 1.14;
const LEADERS_AT: f64 = 0.72;
/// What is seen of the plane, at least, up and down from the centre, and to the sides.
const SEEN: (f64, f64) = (1.25, 1.5);

/// The colour of a group, by its place in the order of the ring.
pub(super) fn color(place: usize) -> Color {
    COLORS[place % COLORS.len()]
}

/// The slots of a group from the first to the last; where it goes on over the end of the ring, the last is the smaller one.
pub(super) fn slots(group: &GroupStatus, buckets: &[&BucketStatus]) -> Option<(u16, u16)> {
    let of = |number| buckets.iter().find(|bucket| Some(&bucket.bucket) == number);
    Some((of(group.buckets.first())?.slot_first, of(group.buckets.last())?.slot_last))
}

/// How much of a circle is before a slot.
fn share(slot: u16) -> f64 {
    f64::from(slot) / f64::from(SLOT_COUNT)
}

/// A place on the plane: slot 0 is at the top, the others follow clockwise.
fn place(share: f64, radius: f64) -> (f64, f64) {
    let angle = FRAC_PI_2 - share * TAU;
    (radius * angle.cos(), radius * angle.sin())
}

/// Where an arc begins and how long it is, as shares of the circle.
fn arc((first, last): (u16, u16)) -> (f64, f64) {
    let count = (u32::from(last) + u32::from(SLOT_COUNT) - u32::from(first)) % u32::from(SLOT_COUNT) + 1;
    (share(first), f64::from(count) / f64::from(SLOT_COUNT))
}

/// Draws the circle.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, groups: &[&GroupStatus], buckets: &[&BucketStatus]) {
    // A character is about twice as high as wide.
    let aspect = f64::from(area.width.max(1)) / (2.0 * f64::from(area.height.max(1)));
    let half = (SEEN.0 * aspect).max(SEEN.1);
    let bounds = (half, half / aspect);
    let column = 2.0 * bounds.0 / f64::from(area.width.max(1));
    let canvas = Canvas::default()
        .marker(Marker::Braille)
        .x_bounds([-bounds.0, bounds.0])
        .y_bounds([-bounds.1, bounds.1])
        .paint(|context| {
            for (order, group) in groups.iter().enumerate() {
                if let Some(slots) = slots(group, buckets) {
                    paint_group(context, group, arc(slots), (color(order), groups.len() > 1), column);
                }
            }
            // Where there are more, they would stand on one another.
            if buckets.len() <= 2 * usize::from(area.height) {
                buckets.iter().for_each(|bucket| paint_leader(context, bucket, column));
            }
            let load: u64 = groups.iter().map(|group| group.load).sum();
            print(context, (0.0, 0.05), format!("{} groups", groups.len()), Color::White, column);
            print(context, (0.0, -0.15), format!("{load}/s"), Color::White, column);
        });
    frame.render_widget(canvas, area);
}

fn paint_group(
    context: &mut Context<'_>,
    group: &GroupStatus,
    (start, length): (f64, f64),
    (color, is_cut): (Color, bool),
    column: f64,
) {
    let gap = if is_cut { length.min(0.02) / 4.0 } else { 0.0 };
    let steps = (1_000.0 * length).ceil() as u32;
    let along =
        (0..=steps).map(|step| start + gap + (length - 2.0 * gap) * f64::from(step) / f64::from(steps));
    let coords: Vec<(f64, f64)> =
        along.flat_map(|share| [1.0, 0.96, 0.92, 0.88].map(|radius| place(share, radius))).collect();
    context.draw(&Points { coords: &coords, color });
    print(context, place(start + length / 2.0, NAMES_AT), group.id.to_string(), color, column);
}

/// The number of who leads a bucket, in its middle; `?` if nobody does.
fn paint_leader(context: &mut Context<'_>, bucket: &BucketStatus, column: f64) {
    let (start, length) = arc((bucket.slot_first, bucket.slot_last));
    let (text, color) = match bucket.believed_leader.filter(|_| bucket.quorum) {
        Some(leader) => (leader.to_string(), Color::Gray),
        None => ("?".into(), Color::Red),
    };
    print(context, place(start + length / 2.0, LEADERS_AT), text, color, column);
}

/// Text with its middle at a place; `column` is the width of a character.
fn print(context: &mut Context<'_>, (x, y): (f64, f64), text: String, color: Color, column: f64) {
    let x = x - column * (text.len() as f64 - 1.0) / 2.0;
    context.print(x, y, Line::from(text.fg(color)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arcs_go_on_over_the_end_of_the_ring() {
        assert_eq!(arc((0, 16_383)), (0.0, 1.0));
        assert_eq!(arc((4_096, 8_191)), (0.25, 0.25));
        assert_eq!(arc((12_288, 4_095)), (0.75, 0.5));
    }

    #[test]
    fn slots_go_around_clockwise_from_the_top() {
        let near = |(x, y): (f64, f64), (a, b): (f64, f64)| (x - a).abs() < 1e-9 && (y - b).abs() < 1e-9;
        assert!(near(place(0.0, 1.0), (0.0, 1.0)) && near(place(0.25, 2.0), (2.0, 0.0)));
        assert!(near(place(0.5, 1.0), (0.0, -1.0)) && near(place(0.75, 1.0), (-1.0, 0.0)));
    }
}
