//! Curves as SVG: one file per figure, one line per policy.

use std::path::Path;

use anyhow::Context as _;
use plotters::prelude::*;

use super::sample::{Curve, Nodes};

/// The name of the file, the title, and the value to draw.
type Plot = (&'static str, &'static str, fn(&Nodes) -> f64);

const PLOTS: [Plot; 5] = [
    ("load-deviation", "standard deviation of load over nodes, % points", |nodes| nodes.load.deviation),
    ("cpu-deviation", "standard deviation of allocated processors over nodes, % points", |nodes| {
        nodes.cpu.deviation
    }),
    ("memory-deviation", "standard deviation of allocated memory over nodes, % points", |nodes| {
        nodes.memory.deviation
    }),
    ("load-mean", "mean load of nodes, %", |nodes| nodes.load.mean),
    ("stranded-cpu", "processors free where a task of mean size does not fit, % of the cell", |nodes| {
        nodes.stranded_cpu
    }),
];

const SIZE: (u32, u32) = (900, 560);

/// Writes the plots of a work into `directory`.
pub(super) fn written(directory: &Path, work: &str, curves: &[(&str, Curve)]) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for (file, title, stat) in PLOTS {
        let path = directory.join(format!("balance-{work}-{file}.svg"));
        let lines: Vec<(&str, Vec<(f64, f64)>)> = curves
            .iter()
            .map(|(policy, curve)| {
                (*policy, curve.points.iter().map(|(arrived, _, nodes)| (*arrived, stat(nodes))).collect())
            })
            .collect();
        drawn(&path, &format!("{work}: {title}"), &lines)
            .map_err(|error| anyhow::anyhow!("cannot draw {}: {error}", path.display()))?;
    }
    Ok(())
}

fn drawn(
    path: &Path,
    title: &str,
    lines: &[(&str, Vec<(f64, f64)>)],
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let right = points().map(|point| point.0).fold(1.0, f64::max);
    let top = points().map(|point| point.1).fold(1.0, f64::max) * 1.05;
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart.configure_mesh().x_desc("arrived, % of what is scarcest").light_line_style(WHITE).draw()?;
    for (number, (policy, points)) in lines.iter().enumerate() {
        let hue = number as f64 / lines.len().max(1) as f64;
        let style = HSLColor(hue, 0.8, 0.42).stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(*policy)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_a_line_for_each_policy() {
        let directory = tempfile::tempdir().unwrap();
        let mut curve = Curve::default();
        curve.sampled(1.0, 0, &Nodes::default());
        curve.sampled(2.0, 0, &Nodes::default());
        written(directory.path(), "w", &[("best-fit", curve.clone()), ("fgd", curve)]).unwrap();
        for (file, ..) in PLOTS {
            let path = directory.path().join(format!("balance-w-{file}.svg"));
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.starts_with("<svg") && text.contains("best-fit") && text.contains("fgd"), "{text}");
        }
    }
}
