//! Pictures.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

const SIZE: (u32, u32) = (720, 420);

/// What is drawn: lines by name.
pub(super) type Series = Vec<(String, Vec<(f64, f64)>)>;

/// Lines over an axis of doublings; the upright axis begins at zero.
pub(super) fn lines(path: &Path, title: &str, across: &str, up: &str, series: &Series) -> Result<()> {
    draw(path, title, across, up, series).map_err(|why| anyhow!("cannot draw {}: {why}", path.display()))
}

fn draw(
    path: &Path,
    title: &str,
    across: &str,
    up: &str,
    series: &Series,
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || series.iter().flat_map(|(_, points)| points);
    let least = points().map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
    let doublings = |x: f64| (x / least).log2();
    let most = points().map(|(x, _)| doublings(*x)).fold(1.0, f64::max);
    let top = points().map(|(_, y)| *y).fold(0.0, f64::max) * 1.05;
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (picture, legend) = area.split_horizontally(SIZE.0 - 190);
    let mut chart = ChartBuilder::on(&picture)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..most, 0.0..top)?;
    let whole = |value: &f64| format!("{value:.0}");
    // Labels are a fifth or less of the axis apart.
    let upright = |value: &f64| if top < 10.0 { format!("{value:.1}") } else { whole(value) };
    let undoubled = |x: &f64| whole(&(least * x.exp2()));
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(most.round() as usize + 1)
        .x_desc(across)
        .y_desc(up)
        .x_label_formatter(&undoubled)
        .y_label_formatter(&upright)
        .draw()?;
    for (index, (name, points)) in series.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let mut points: Vec<_> = points.iter().map(|(x, y)| (doublings(*x), *y)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?;
        let y = 50 + 20 * i32::try_from(index)?;
        legend.draw(&PathElement::new(vec![(4, y), (24, y)], colour.stroke_width(3)))?;
        legend.draw(&Text::new(name.as_str(), (30, y - 6), ("sans-serif", 12)))?;
    }
    area.present()?;
    Ok(())
}
