//! Other limits for the processes of a cgroup that run already.
//!
//! Memory is the delicate one. The kernel kills a process when a limit of version 2 falls below what is in use, and
//! refuses such a limit in version 1. So the use is compared first, and in version 2 the kernel reclaims what it can
//! below a soft limit before the hard one follows.

use std::fs;
use std::io;
use std::path::Path;

use super::host::weight_set;
use super::leaf::{Leaf, field_read, named, number_read};

/// The limits of an attempt that change while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResizeLimits {
    /// As in [`super::CgroupLimits`].
    pub cpu_millis: u64,
    /// As in [`super::CgroupLimits`].
    pub memory_bytes: u64,
}

/// Why a cgroup keeps its limits.
#[derive(Debug)]
pub enum ResizeError {
    /// The processes use more memory than they are to have.
    MemoryInUse { used_bytes: u64, asked_bytes: u64 },
    /// The kernel refused a limit.
    Refused(io::Error),
}

impl From<io::Error> for ResizeError {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

/// Which of the two limits of version 1 is set first.
#[derive(Clone, Copy)]
enum LimitOrder {
    SwapFirst,
    SwapLast,
}

/// No limit of version 2.
const NO_LIMIT: &str = "max";
/// No limit of version 1.
const NO_LIMIT_V1: &str = "-1";

impl Leaf {
    /// Sets other limits: all of them, or none. Setting the present ones again changes nothing. A host without cgroups
    /// has nothing to set.
    ///
    /// # Errors
    /// The limits are as `before` then.
    pub fn resize(&self, before: ResizeLimits, after: ResizeLimits) -> Result<(), ResizeError> {
        self.weight_resize(after.cpu_millis)?;
        let resized = self.memory_resize(before.memory_bytes, after.memory_bytes);
        if resized.is_err() {
            // The weight was accepted before, so it is again.
            let _ = self.weight_resize(before.cpu_millis);
        }
        resized
    }

    fn weight_resize(&self, cpu_millis: u64) -> io::Result<()> {
        for directory in self.unified.iter().chain(self.v1.get("cpu")) {
            weight_set(directory, cpu_millis)?;
        }
        Ok(())
    }

    fn memory_resize(&self, before: u64, after: u64) -> Result<(), ResizeError> {
        // By the present limit: an agent that died may have set it and recorded nothing.
        let grows = after == 0 || self.memory_limit_present().is_some_and(|present| after >= present);
        if !grows && let Some(used_bytes) = self.memory_needed().filter(|used| *used > after) {
            return Err(ResizeError::MemoryInUse { used_bytes, asked_bytes: after });
        }
        if self.file("memory.max", None).is_some() {
            return if grows { Ok(self.limit("memory.max", after)?) } else { self.memory_shrink(after) };
        }
        let order = if grows { LimitOrder::SwapFirst } else { LimitOrder::SwapLast };
        self.memory_resize_v1(before, after, order)
    }

    /// The limit that the kernel has now; `None`: it has none.
    fn memory_limit_present(&self) -> Option<u64> {
        let unified = self.file("memory.max", None);
        number_read(&unified.or_else(|| self.file("memory.limit_in_bytes", Some("memory")))?)
    }

    /// Lowers the limit of version 2. The kernel reclaims down to a soft limit first, which kills nothing.
    fn memory_shrink(&self, after: u64) -> Result<(), ResizeError> {
        let soft = self.file("memory.high", None);
        if let Some(soft) = &soft {
            text_write(soft, &after.to_string())?;
        }
        let used_bytes = self.file("memory.current", None).and_then(|path| number_read(&path)).unwrap_or(0);
        let lowered =
            if used_bytes > after { Ok(false) } else { self.limit("memory.max", after).map(|()| true) };
        if let Some(soft) = &soft {
            text_write(soft, NO_LIMIT)?;
        }
        if lowered? { Ok(()) } else { Err(ResizeError::MemoryInUse { used_bytes, asked_bytes: after }) }
    }

    /// Version 1 has one limit without swap and one with it, which is never the smaller one.
    fn memory_resize_v1(&self, before: u64, after: u64, order: LimitOrder) -> Result<(), ResizeError> {
        let Some(plain) = self.file("memory.limit_in_bytes", Some("memory")) else { return Ok(()) };
        let swap = self.file("memory.memsw.limit_in_bytes", Some("memory"));
        let text = |bytes: u64| if bytes == 0 { NO_LIMIT_V1.to_owned() } else { bytes.to_string() };
        let (first, second) = match order {
            LimitOrder::SwapFirst => (swap.as_deref(), Some(plain.as_path())),
            LimitOrder::SwapLast => (Some(plain.as_path()), swap.as_deref()),
        };
        for path in [first, second].into_iter().flatten() {
            let Err(error) = text_write(path, &text(after)) else { continue };
            let used_bytes =
                || self.file("memory.usage_in_bytes", Some("memory")).and_then(|path| number_read(&path));
            // Back to what was in force; the one with swap last, in either case.
            let _ = text_write(&plain, &text(before));
            if let Some(swap) = &swap {
                let _ = text_write(swap, &text(before));
            }
            return Err(
                match used_bytes().filter(|used| error.kind() == io::ErrorKind::ResourceBusy && *used > after)
                {
                    Some(used_bytes) => ResizeError::MemoryInUse { used_bytes, asked_bytes: after },
                    None => error.into(),
                },
            );
        }
        Ok(())
    }

    /// The memory that its processes use, without files that the kernel only keeps for them and can drop.
    fn memory_needed(&self) -> Option<u64> {
        let needed = |used: Option<u64>, files: &str, shared: &str, stat: Option<std::path::PathBuf>| {
            let field = |name: &str| stat.as_deref().and_then(|stat| field_read(stat, name)).unwrap_or(0);
            Some(used?.saturating_sub(field(files).saturating_sub(field(shared))))
        };
        let unified = self.file("memory.current", None).and_then(|path| number_read(&path));
        needed(unified, "file", "shmem", self.file("memory.stat", None)).or_else(|| {
            let used = self.file("memory.usage_in_bytes", Some("memory")).and_then(|path| number_read(&path));
            needed(used, "total_cache", "total_shmem", self.file("memory.stat", Some("memory")))
        })
    }

    fn limit(&self, name: &str, bytes: u64) -> io::Result<()> {
        let Some(path) = self.file(name, None) else { return Ok(()) };
        if bytes == 0 { text_write(&path, NO_LIMIT) } else { text_write(&path, &bytes.to_string()) }
    }
}

fn text_write(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| named(&error, path))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const BEFORE: ResizeLimits = ResizeLimits { cpu_millis: 1_000, memory_bytes: 1_000 };

    fn leaf(files: &[(&str, &str)], version: u32) -> (tempfile::TempDir, Leaf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().to_owned();
        for (name, text) in files {
            fs::write(path.join(name), text).unwrap();
        }
        let v1 = [("memory".to_owned(), path.clone()), ("cpu".to_owned(), path.clone())];
        let leaf = match version {
            1 => Leaf { v1: v1.into(), ..Leaf::default() },
            _ => Leaf { unified: Some(path.clone()), ..Leaf::default() },
        };
        (root, leaf, path)
    }

    fn v2(used: &str, stat: &str) -> (tempfile::TempDir, Leaf, PathBuf) {
        let files = [
            ("memory.max", "1000"),
            ("memory.high", "max"),
            ("memory.current", used),
            ("memory.stat", stat),
            ("cpu.weight", "100"),
        ];
        leaf(&files, 2)
    }

    fn text(path: &Path, name: &str) -> String {
        fs::read_to_string(path.join(name)).unwrap()
    }

    #[test]
    fn limits_grow_and_shrink_in_both_versions() {
        let (_root, unified, path) = v2("300", "");
        unified.resize(BEFORE, ResizeLimits { cpu_millis: 2_000, memory_bytes: 4_000 }).unwrap();
        assert_eq!((text(&path, "memory.max"), text(&path, "cpu.weight")), ("4000".into(), "200".into()));
        let grown = ResizeLimits { cpu_millis: 2_000, memory_bytes: 4_000 };
        unified.resize(grown, ResizeLimits { cpu_millis: 500, memory_bytes: 300 }).unwrap();
        assert_eq!((text(&path, "memory.max"), text(&path, "cpu.weight")), ("300".into(), "50".into()));
        assert_eq!(text(&path, "memory.high"), "max", "the soft limit is gone");
        unified.resize(BEFORE, ResizeLimits { cpu_millis: 500, memory_bytes: 0 }).unwrap();
        assert_eq!(text(&path, "memory.max"), "max");
        let files = [
            ("memory.limit_in_bytes", "1000"),
            ("memory.memsw.limit_in_bytes", "1000"),
            ("memory.usage_in_bytes", "300"),
            ("cpu.shares", "1024"),
        ];
        let (_root, v1, path) = leaf(&files, 1);
        v1.resize(BEFORE, ResizeLimits { cpu_millis: 2_000, memory_bytes: 4_000 }).unwrap();
        let both = || (text(&path, "memory.limit_in_bytes"), text(&path, "memory.memsw.limit_in_bytes"));
        assert_eq!((both(), text(&path, "cpu.shares")), (("4000".into(), "4000".into()), "2048".into()));
        v1.resize(BEFORE, ResizeLimits { cpu_millis: 2_000, memory_bytes: 0 }).unwrap();
        assert_eq!(both(), ("-1".into(), "-1".into()));
    }

    /// The figure counts what the kernel cannot drop. Nothing has changed afterwards.
    #[test]
    fn memory_below_its_use_is_refused_with_the_figure() {
        let after = ResizeLimits { cpu_millis: 2_000, memory_bytes: 500 };
        let (_root, unified, path) = v2("900", "anon 600\nfile 300\nshmem 100\n");
        let refused = unified.resize(BEFORE, after).unwrap_err();
        assert!(
            matches!(refused, ResizeError::MemoryInUse { used_bytes: 700, asked_bytes: 500 }),
            "{refused:?}"
        );
        assert_eq!((text(&path, "memory.max"), text(&path, "cpu.weight")), ("1000".into(), "100".into()));
        // The kernel could drop it, and has not.
        let (_root, unified, path) = v2("900", "file 800\n");
        let refused = unified.resize(BEFORE, after).unwrap_err();
        assert!(matches!(refused, ResizeError::MemoryInUse { used_bytes: 900, .. }), "{refused:?}");
        assert_eq!((text(&path, "memory.max"), text(&path, "memory.high")), ("1000".into(), "max".into()));
    }

    /// An agent may have set a limit and died before it has recorded that.
    #[test]
    fn the_present_limit_decides_what_shrinks_and_not_the_recorded_one() {
        let (_root, unified, path) = v2("900", "anon 900\n");
        let recorded = ResizeLimits { memory_bytes: 100, ..BEFORE };
        let refused = unified.resize(recorded, ResizeLimits { memory_bytes: 500, ..BEFORE }).unwrap_err();
        assert!(matches!(refused, ResizeError::MemoryInUse { used_bytes: 900, .. }), "{refused:?}");
        assert_eq!(text(&path, "memory.max"), "1000");
    }

    #[test]
    fn a_host_without_cgroups_has_nothing_to_set() {
        Leaf::default().resize(BEFORE, ResizeLimits::default()).unwrap();
    }
}
