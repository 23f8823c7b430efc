//! The examples of the documentation, with the addresses of a cell: what is documented is what is tested.

use borough_tests::TestCell;

const PAGE: &str = include_str!("../../../../docs/names.md");

/// The first example below a heading, for the job `web` of this cell. A load balancer listens on `address`.
///
/// # Panics
/// The page has no such heading, or no example below it.
pub(super) fn example(cell: &TestCell, heading: &str, address: &str) -> String {
    let text = first_example(PAGE, heading);
    let port = |address: &str| address.rsplit(':').next().unwrap().to_owned();
    let places = [
        ("127.0.0.1:7453", cell.dns()),
        ("127.0.0.1:7404", cell.names()),
        ("127.0.0.1:8080", address.to_owned()),
        ("port_value: 7405", format!("port_value: {}", port(&cell.xds()))),
        ("port_value: 8080", format!("port_value: {}", port(address))),
        (".ann.", ".tester.".to_owned()),
        ("web_ann", "web_tester".to_owned()),
        ("user=ann", "user=tester".to_owned()),
    ];
    places.iter().fold(text, |text, (documented, here)| text.replace(documented, here))
}

fn first_example(page: &str, heading: &str) -> String {
    let (_, section) = page.split_once(&format!("\n{heading}\n")).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with("    "));
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix("    ").unwrap_or(line)).collect();
    assert!(!lines.is_empty(), "no example below {heading:?}");
    lines.join("\n")
}

/// Replaces a part of an example.
///
/// # Panics
/// The example has no such part.
pub(super) fn replaced(text: &str, part: &str, by: &str) -> String {
    assert!(text.contains(part), "no {part:?} in\n{text}");
    text.replace(part, by)
}
