//! The cgroups of a host, and the part that a node may use.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::leaf::named;
use super::{CgroupLimits, Leaf};

/// The usable versions of cgroups on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    None,
    /// Version 1 only.
    V1,
    /// Version 2 only.
    V2,
    /// Both: version 2 for tracking and killing, version 1 for the controllers that it has.
    Hybrid,
}

impl CgroupVersion {
    /// Its form in a node's attributes.
    pub fn text(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::V1 => "v1",
            Self::V2 => "v2",
            Self::Hybrid => "hybrid",
        }
    }
}

/// The mount points of the hierarchies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The directory of cgroup version 2.
    pub unified: Option<PathBuf>,
    /// Version 1, by controller; several may be mounted together.
    pub v1: BTreeMap<String, PathBuf>,
}

/// Controllers of version 1 that are used. `freezer` is used only if nothing better can stop a cgroup for killing.
const V1_CONTROLLERS: [&str; 5] = ["cpu", "cpuacct", "memory", "pids", "freezer"];

impl Host {
    /// Finds what this host has mounted; empty if that cannot be read.
    pub fn find() -> Self {
        fs::read_to_string("/proc/self/mountinfo").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    fn parse(mountinfo: &str) -> Self {
        let mut host = Self::default();
        for line in mountinfo.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let Some(point) = before.split(' ').nth(4).map(octal_unescape) else { continue };
            let mut kind = after.split(' ');
            match kind.next() {
                Some("cgroup2") if host.unified.is_none() => host.unified = Some(point),
                Some("cgroup") => {
                    let options = kind.nth(1).unwrap_or_default().split(',');
                    for controller in options.filter(|option| V1_CONTROLLERS.contains(option)) {
                        host.v1.entry(controller.to_owned()).or_insert_with(|| point.clone());
                    }
                }
                _ => {}
            }
        }
        host
    }
}

/// Mount points have blanks and backslashes written as `\040` and the like.
fn octal_unescape(text: &str) -> PathBuf {
    PathBuf::from(text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
}

/// The cgroups of a node. Each attempt has its leaf below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupRoot {
    /// The directory in cgroup version 2.
    pub unified: Option<PathBuf>,
    /// In version 1, by controller.
    pub v1: BTreeMap<String, PathBuf>,
    /// Controllers that version 2 passes to leaves.
    pub unified_controllers: Vec<String>,
    /// Whether a whole cgroup can be killed at once.
    pub kill: bool,
    /// Mounted but unusable features, with the reason.
    pub missing: Vec<String>,
}

impl CgroupRoot {
    /// Creates `relative` (such as `borough/<cell>/<node>`) in every hierarchy that allows it.
    ///
    /// The node gets the weight of its `cpu_millis` among its siblings. In version 1 its ancestors get the weight of as
    /// many cores as the machine has, since single processes next to them have the weight of one core each. In version
    /// 2 the ancestors keep their weight: all their siblings are groups, and the system's own must not starve.
    pub fn prepare(host: &Host, relative: &Path, cpu_millis: u64) -> Self {
        let mut base = Self::prepare_unweighted(host, relative);
        let nodes = base.unified.iter().chain(base.v1.get("cpu")).map(|path| (path.as_path(), cpu_millis));
        let cores =
            std::thread::available_parallelism().map_or(1, |count| u64::try_from(count.get()).unwrap_or(1));
        let above = base.v1.get("cpu").into_iter().flat_map(|path| path.ancestors().skip(1));
        let above = above.take(relative.iter().count().saturating_sub(1)).map(|path| (path, cores * 1000));
        let refused: Vec<io::Error> =
            nodes.chain(above).filter_map(|(path, millis)| weight_set(path, millis).err()).collect();
        base.missing.extend(refused.into_iter().map(|error| format!("cpu weight: {error}")));
        base
    }

    fn prepare_unweighted(host: &Host, relative: &Path) -> Self {
        let mut base = Self::default();
        if let Some(mount) = &host.unified {
            match unified_prepare(mount, relative) {
                Ok(path) => {
                    let listed = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap_or_default();
                    base.unified_controllers = listed.split_ascii_whitespace().map(str::to_owned).collect();
                    base.kill = path.join("cgroup.kill").exists();
                    base.unified = Some(path);
                }
                Err(error) => base.missing.push(format!("version 2: {error}")),
            }
        }
        for (controller, mount) in &host.v1 {
            let replaced = match controller.as_str() {
                "freezer" => base.kill,
                "cpuacct" => base.unified.is_some(),
                other => base.unified_controllers.iter().any(|have| have == other),
            };
            if replaced {
                continue;
            }
            let path = mount.join(relative);
            match directory_create(&path) {
                Ok(()) => drop(base.v1.insert(controller.clone(), path)),
                Err(error) => base.missing.push(format!("{controller}: {error}")),
            }
        }
        base
    }

    /// The usable versions.
    pub fn version(&self) -> CgroupVersion {
        if self.unified.is_none() {
            return if self.v1.is_empty() { CgroupVersion::None } else { CgroupVersion::V1 };
        }
        if self.v1.is_empty() { CgroupVersion::V2 } else { CgroupVersion::Hybrid }
    }

    /// Returns true if `controller` (`cpu`, `memory`, `pids`) works for leaves.
    pub fn controls(&self, controller: &str) -> bool {
        self.v1.contains_key(controller) || self.unified_controllers.iter().any(|have| have == controller)
    }

    /// The leaf called `name`, which is not created yet.
    pub fn leaf(&self, name: &str, limits: CgroupLimits) -> Leaf {
        Leaf {
            unified: self.unified.as_ref().map(|path| path.join(name)),
            v1: self.v1.iter().map(|(controller, path)| (controller.clone(), path.join(name))).collect(),
            limits,
        }
    }

    /// Removes the node's own directories and those above that are empty; leaves that are in use keep them.
    pub fn remove(&self, levels: usize) {
        for path in self.unified.iter().chain(self.v1.values()) {
            for directory in path.ancestors().take(levels) {
                if fs::remove_dir(directory).is_err() {
                    break;
                }
            }
        }
    }
}

/// Creates a cgroup's directory for everyone to look at, whatever the umask: programs read their own limits there.
///
/// # Errors
/// Those of the file system.
pub(super) fn directory_create(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(path)?;
    for made in missing {
        // If the kernel refuses, the limits still hold.
        let _ = fs::set_permissions(made, fs::Permissions::from_mode(0o755));
    }
    Ok(())
}

/// Sets the weight of a cgroup for scarce cores, in either version. Does nothing without the file for it.
pub(super) fn weight_set(directory: &Path, cpu_millis: u64) -> io::Result<()> {
    let weight = (cpu_millis / 10).clamp(1, 10_000);
    let shares = (cpu_millis.saturating_mul(1024) / 1000).clamp(2, 262_144);
    for (name, value) in [("cpu.weight", weight), ("cpu.shares", shares)] {
        let path = directory.join(name);
        if path.exists() {
            fs::write(&path, value.to_string()).map_err(|error| named(&error, &path))?;
        }
    }
    Ok(())
}

/// Creates the directories of version 2 and passes controllers down, level by level. A controller may be refused
/// (another hierarchy has it, or an inner cgroup has processes); the levels below then lack it.
fn unified_prepare(mount: &Path, relative: &Path) -> io::Result<PathBuf> {
    let mut path = mount.to_path_buf();
    controllers_enable(&path);
    for part in relative {
        path.push(part);
        directory_create(&path)?;
        controllers_enable(&path);
    }
    Ok(path)
}

fn controllers_enable(path: &Path) {
    for controller in ["+cpu", "+memory", "+pids", "+cpuset"] {
        // `cgroup.subtree_control` shows afterwards what could not be enabled.
        let _ = fs::write(path.join("cgroup.subtree_control"), controller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_distinguished() {
        let text = "\
24 1 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw
25 24 0:2 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:1 - cgroup cgroup rw,cpu,cpuacct
26 24 0:3 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
27 24 0:4 / /sys/fs/cgroup/un\\040ified rw - cgroup2 cgroup2 rw";
        let host = Host::parse(text);
        assert_eq!(host.unified, Some(PathBuf::from("/sys/fs/cgroup/un ified")));
        assert_eq!(host.v1.keys().collect::<Vec<_>>(), ["cpu", "cpuacct"]);
        assert_eq!(Host::parse("nonsense"), Host::default());
    }

    #[test]
    fn version_1_is_used_only_for_what_version_2_lacks() {
        let root = tempfile::tempdir().unwrap();
        let mount = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let v1: BTreeMap<String, PathBuf> =
            V1_CONTROLLERS.iter().map(|name| ((*name).to_owned(), mount(name))).collect();
        let host = Host { unified: Some(mount("unified")), v1: v1.clone() };
        let base = CgroupRoot::prepare(&host, Path::new("borough/c/n"), 1000);
        assert_eq!(base.version(), CgroupVersion::Hybrid);
        assert!(!base.v1.contains_key("cpuacct"), "version 2 accounts cpu without any controller");
        let alone = CgroupRoot::prepare(&Host { unified: None, v1 }, Path::new("borough/c/n"), 1000);
        assert_eq!((alone.version(), alone.v1.len()), (CgroupVersion::V1, 5));
        assert!(alone.controls("memory") && !alone.kill);
    }

    #[test]
    fn what_may_not_be_used_is_named() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        let host = Host { unified: Some(file.clone()), v1: [("memory".to_owned(), file)].into() };
        let base = CgroupRoot::prepare(&host, Path::new("borough"), 1000);
        assert_eq!((base.version(), base.missing.len()), (CgroupVersion::None, 2));
    }
}
