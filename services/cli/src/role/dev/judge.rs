//! What is wrong with the arguments of `dev`, judged before anything is opened.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use borough_model::Name;

use crate::args::DevArguments;
use crate::exit::{Code, Failure};
use crate::role::issuer::issuers_check;

/// Judges what needs no store and no directory.
pub(super) fn judge(arguments: &DevArguments) -> Result<(), Failure> {
    cells_check(&arguments.cells, arguments.federation.as_ref())?;
    ports_check(arguments)?;
    arguments.zone.settings(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    issuers_check(&arguments.issuers)
}

/// A cell that is named twice would have two agents in one directory.
fn cells_check(cells: &[Name], home: Option<&Name>) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    if let Some(cell) = cells.iter().find(|cell| !seen.insert(*cell)) {
        let text = format!("--cells names {:?} twice; name each cell once", cell.as_str());
        return Err(Failure::new(Code::Usage, text));
    }
    match home.filter(|home| seen.contains(home)) {
        Some(home) => {
            let text =
                format!("--federation: {home} is one of --cells; accepted: a cell of its own, without nodes");
            Err(Failure::new(Code::Usage, text))
        }
        None => Ok(()),
    }
}

/// Two listeners cannot have one port. 0 is any port.
fn ports_check(arguments: &DevArguments) -> Result<(), Failure> {
    let options = [
        ("--port", arguments.port),
        ("--http-port", arguments.http_port),
        ("--dns-port", arguments.dns_port),
        ("--names-port", arguments.names_port),
        ("--xds-port", arguments.xds_port),
    ];
    let given =
        options.iter().filter_map(|(option, port)| Some((*option, (*port).filter(|port| *port > 0)?)));
    let mut seen: Vec<(&str, u16)> = Vec::new();
    for (option, port) in given {
        if let Some((other, _)) = seen.iter().find(|(_, known)| *known == port) {
            let text = format!("{other} and {option} are both {port}; give each a port of its own");
            return Err(Failure::new(Code::Usage, text).with_hint("0 takes any port that is free"));
        }
        seen.push((option, port));
    }
    Ok(())
}

/// Refuses a file in place of the directory. One that is missing will be made.
pub(super) fn directory_check(root: &Path) -> Result<(), Failure> {
    match std::fs::metadata(root) {
        Ok(found) if !found.is_dir() => {
            let text = format!("{} is no directory", root.display());
            let hint = "name a directory, or one that is not there yet: --dir DIR or BOROUGH_DIR";
            Err(Failure::new(Code::Usage, text).with_hint(hint))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Verb};

    fn refused(line: &str) -> String {
        let Verb::Dev(arguments) = Arguments::read(line.split_whitespace()).unwrap().verb else { panic!() };
        let failure = judge(&arguments).unwrap_err();
        assert_eq!(failure.code(), Code::Usage, "{line}");
        failure.message().to_owned()
    }

    #[test]
    fn what_cannot_start_is_refused_before_anything_is_opened() {
        let same = "--port and --http-port are both 7500; give each a port of its own";
        assert_eq!(refused("borough dev --port 7500 --http-port 7500"), same);
        assert!(
            refused("borough dev --dns-port 7500 --xds-port 7500").starts_with("--dns-port and --xds-port")
        );
        assert!(refused("borough dev --zone -").starts_with("--zone: "));
        assert!(refused("borough dev --cells a,a").starts_with("--cells names \"a\" twice"));
        assert!(refused("borough dev --issuer /nowhere/at/all.json").ends_with("there is no such file"));
        let line = "borough dev --port 0 --http-port 0 --dns-port 7500";
        let Verb::Dev(fine) = Arguments::read(line.split_whitespace()).unwrap().verb else { panic!() };
        assert!(judge(&fine).is_ok());
    }

    #[test]
    fn a_file_is_no_directory_of_a_cell() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(directory_check(&file).unwrap_err().code(), Code::Usage);
        assert!(directory_check(directory.path()).is_ok());
        assert!(directory_check(&directory.path().join("new")).is_ok());
    }
}
