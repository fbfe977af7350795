//! The points files of a campaign: written after every size, and read by the command that goes on with it.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use isochron_core::Error;
use isochron_core::internal::output::{DOCUMENT_BYTES, PartialFile};
use isochron_hierarchy::model::{ModelError, ModelFile, SurfaceFile, SurfacePoint};

use super::part::{MeasuredPart, PointsHeaders, Size, flatten_point, widen_point};
use crate::output;
use crate::points::today;

/// The header that may differ when a campaign goes on.
const DATE: &str = "date";

/// The header with the sizes for which a part found no memory, with commas between them: `d`, or `m n` of a surface.
const NO_MEMORY: &str = "no-memory";

/// The format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Points of models in one dimension.
    Points,
    /// Surfaces.
    Surface,
}

/// The points of each part, and the folder of their files.
pub struct PointsFiles {
    /// `None` if nothing is to be written.
    folder: Option<PathBuf>,
    kind: FileKind,
    files: Vec<PartFile>,
}

/// The file of a part.
struct PartFile {
    name: String,
    headers: PointsHeaders,
    points: Vec<SurfacePoint>,
    /// The sizes for which the part found no memory.
    lacking: Vec<Size>,
}

/// The points of one size, by part; `None` for a part to which a smaller size was hopeless.
pub type PartPoints = Vec<Option<SurfacePoint>>;

impl FileKind {
    fn ending(self) -> &'static str {
        match self {
            Self::Points => "points",
            Self::Surface => "surface",
        }
    }

    fn parse(self, text: &str) -> Result<(PointsHeaders, Vec<SurfacePoint>), ModelError> {
        match self {
            Self::Points => {
                let file = ModelFile::parse(text)?;
                Ok((file.headers, file.points.iter().map(widen_point).collect()))
            }
            Self::Surface => {
                let file = SurfaceFile::parse(text)?;
                Ok((file.headers, file.points))
            }
        }
    }

    fn write(self, file: &PartFile) -> String {
        let (mut headers, points) = (file.headers.clone(), &file.points);
        if !file.lacking.is_empty() {
            let sizes = file.lacking.iter().map(|(m, n)| match self {
                Self::Points => m.to_string(),
                Self::Surface => format!("{m} {n}"),
            });
            let sizes: Vec<String> = sizes.collect();
            headers.insert(NO_MEMORY.to_owned(), sizes.join(", "));
        }
        match self {
            Self::Points => {
                let points = points.iter().map(flatten_point).collect();
                ModelFile { headers, points }.to_string()
            }
            Self::Surface => {
                let points = points.clone();
                SurfaceFile { headers, points }.to_string()
            }
        }
    }
}

impl PointsFiles {
    /// Opens the files of all parts. Points of an earlier command are read.
    ///
    /// # Errors
    /// Returns [`Error::File`] if the folder cannot be made, or a file cannot be read or was measured in another way.
    pub fn open(
        folder: Option<&Path>,
        kind: FileKind,
        parts: &[MeasuredPart],
    ) -> Result<Self, Error> {
        let mut opened = Self { folder: folder.map(Path::to_path_buf), kind, files: Vec::new() };
        if let Some(folder) = folder {
            output::make_folder(folder)?;
        }
        for part in parts {
            let name = format!("{}.{}", part.stem, kind.ending());
            let (points, lacking) = match folder {
                Some(folder) => read_earlier(&folder.join(&name), kind, &part.headers)?,
                None => (Vec::new(), Vec::new()),
            };
            let mut headers = part.headers.clone();
            headers.insert(DATE.to_owned(), today());
            opened.files.push(PartFile { name, headers, points, lacking });
        }
        Ok(opened)
    }

    /// Returns the path of each part's file.
    pub fn list_paths(&self) -> Vec<Option<String>> {
        (0..self.files.len())
            .map(|part| self.path(part))
            .map(|path| path.map(|path| path.display().to_string()))
            .collect()
    }

    fn path(&self, part: usize) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(&self.files[part].name))
    }

    /// Drops the sizes that an interrupted command had not written to all files: of a part that has neither a point
    /// there nor a bound at a smaller size, nor lacked memory for one.
    pub fn drop_unfinished(&mut self) {
        let unfinished = self.sizes().filter(|&(size, ref points)| {
            self.files
                .iter()
                .zip(points)
                .filter(|(_, point)| point.is_none())
                .into_iter()
                .any(|(file, _)| !file.is_hopeless(size))
        });
        let unfinished: Vec<Size> = unfinished.map(|(size, _)| size).collect();
        for file in &mut self.files {
            file.points.retain(|point| !unfinished.contains(&(point.m, point.n)));
        }
    }

    /// Returns the points of a part.
    pub fn points(&self, part: usize) -> &[SurfacePoint] {
        &self.files[part].points
    }

    /// Returns the sizes that any part has measured, each with the points of all parts.
    pub fn sizes(&self) -> impl Iterator<Item = (Size, PartPoints)> {
        let mut sizes: BTreeMap<Size, PartPoints> = BTreeMap::new();
        for (part, file) in self.files.iter().enumerate() {
            for point in &file.points {
                sizes.entry((point.m, point.n)).or_insert_with(|| vec![None; self.files.len()])
                    [part] = Some(*point);
            }
        }
        sizes.into_iter()
    }

    /// Returns the sizes for which each part found no memory.
    pub fn list_lacking(&self) -> Vec<Vec<Size>> {
        self.files.iter().map(|file| file.lacking.clone()).collect()
    }

    /// Adds the points of a size, with the sizes for which each part found no memory, and writes the files.
    ///
    /// # Errors
    /// Returns the errors of the files.
    pub fn add(&mut self, points: &PartPoints, lacking: &[Vec<Size>]) -> Result<(), Error> {
        for (part, (point, lacking)) in points.iter().zip(lacking).enumerate() {
            let file = &mut self.files[part];
            if point.is_none() && file.lacking == *lacking {
                continue;
            }
            file.lacking.clone_from(lacking);
            if let Some(point) = point {
                let measured = &mut file.points;
                let at = measured.partition_point(|other| (other.m, other.n) < (point.m, point.n));
                measured.insert(at, *point);
            }
            if let Some(path) = self.path(part) {
                PartialFile::create(&path, DOCUMENT_BYTES)?
                    .fill(&self.kind.write(&self.files[part]))?;
            }
        }
        Ok(())
    }
}

impl PartFile {
    /// Returns `true` if a size that is neither higher nor wider was hopeless, or found no memory.
    fn is_hopeless(&self, (m, n): Size) -> bool {
        let bounds = self.points.iter().filter(|point| point.reps == 0);
        let mut bounds = bounds.map(|point| (point.m, point.n)).chain(self.lacking.iter().copied());
        bounds.any(|bound| bound.0 <= m && bound.1 <= n)
    }
}

/// Reads the sizes of the header about lacking memory.
fn parse_lacking(text: &str) -> Vec<Size> {
    text.split(", ")
        .filter_map(|size| {
            let (m, n) = size.split_once(' ').unwrap_or((size, "1"));
            Some((m.parse().ok()?, n.parse().ok()?))
        })
        .collect()
}

/// Reads the points of an earlier command, which had the same headers but for the date, and the sizes for which it found
/// no memory; none without a file.
fn read_earlier(
    path: &Path,
    kind: FileKind,
    headers: &PointsHeaders,
) -> Result<(Vec<SurfacePoint>, Vec<Size>), Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok((Vec::new(), Vec::new()));
        }
        Err(error) => return Err(Error::file(path, error)),
    };
    let (earlier, points) = kind.parse(&text).map_err(|error| Error::file(path, error))?;
    for (key, wanted) in headers {
        let found = earlier.get(key).map_or("nothing", String::as_str);
        if found != wanted {
            let reason = format!(
                "its points cannot be continued: {key} is {found} there and {wanted} here. Choose another --out, or remove it"
            );
            return Err(Error::file(path, reason));
        }
    }
    let lacking = earlier.get(NO_MEMORY).map(|text| parse_lacking(text));
    Ok((points, lacking.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two parts that found memory for every size.
    const NO_LACK: [Vec<Size>; 2] = [const { Vec::new() }; 2];

    fn point(d: u64, reps: u32) -> SurfacePoint {
        SurfacePoint { m: d, n: 1, t_s: 0.5, reps, ci_s: 0.0 }
    }

    fn open(folder: &tempfile::TempDir, kernel: &str) -> Result<PointsFiles, Error> {
        let parts = ["a", "b"].map(|stem| MeasuredPart {
            headers: PointsHeaders::from([("kernel".to_owned(), kernel.to_owned())]),
            stem: stem.to_owned(),
            ..MeasuredPart::default()
        });
        PointsFiles::open(Some(folder.path()), FileKind::Points, &parts)
    }

    #[test]
    fn what_was_measured_is_there_again_unless_a_file_lacks_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = open(&folder, "k").expect("a folder");
        for points in [
            [Some(point(4, 3)), Some(point(4, 0))],
            [Some(point(8, 3)), None],
            [Some(point(2, 3)), Some(point(2, 3))],
        ] {
            files.add(&points.to_vec(), &NO_LACK).expect("a file");
        }
        // As if the command were killed between two files.
        files.files.truncate(1);
        files.add(&vec![Some(point(1, 3))], &NO_LACK[..1]).expect("a file");
        let mut files = open(&folder, "k").expect("the files");
        files.drop_unfinished();
        let found: Vec<_> = files.sizes().collect();
        let expected = [
            ((2, 1), vec![Some(point(2, 3)); 2]),
            ((4, 1), vec![Some(point(4, 3)), Some(point(4, 0))]),
            ((8, 1), vec![Some(point(8, 3)), None]),
        ];
        assert_eq!(found, expected);
        let refused = open(&folder, "other").map(|_| ()).expect_err("another kernel");
        let refused = refused.to_string();
        assert!(refused.contains("kernel is k there and other here"), "{refused}");
    }

    #[test]
    fn a_size_without_memory_is_known_to_the_next_command() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = open(&folder, "k").expect("a folder");
        let lacking = [vec![], vec![(8, 1), (9, 1)]];
        for (d, lacking) in [(4, &NO_LACK), (8, &lacking), (16, &lacking)] {
            let of_second = lacking[1].is_empty().then(|| point(d, 3));
            let points = vec![Some(point(d, 3)), of_second];
            files.add(&points, lacking).expect("a file");
        }
        let mut files = open(&folder, "k").expect("the files");
        files.drop_unfinished();
        assert_eq!(files.sizes().count(), 3);
        assert_eq!(files.list_lacking(), lacking);
    }

    /// The points of a campaign of two parts, size after size: the second part finds size 16 hopeless.
    fn list_campaign() -> [(Size, PartPoints); 4] {
        [
            ((2, 1), vec![Some(point(2, 3)); 2]),
            ((16, 1), vec![Some(point(16, 3)), Some(point(16, 0))]),
            ((8, 1), vec![Some(point(8, 3)); 2]),
            ((32, 1), vec![Some(point(32, 3)), None]),
        ]
    }

    #[test]
    fn a_campaign_that_is_killed_after_any_file_goes_on() {
        let campaign = list_campaign();
        let writes = campaign.iter().flat_map(|(_, points)| (0..2).map(move |part| (points, part)));
        let writes: Vec<_> = writes.filter(|(points, part)| points[*part].is_some()).collect();
        for killed_after in 0..=writes.len() {
            let folder = tempfile::tempdir().expect("a folder");
            let mut files = open(&folder, "k").expect("a folder");
            for (points, part) in &writes[..killed_after] {
                let mut alone = vec![None; 2];
                alone[*part] = points[*part];
                files.add(&alone, &NO_LACK).expect("a file");
            }
            let mut files = open(&folder, "k").expect("the files");
            files.drop_unfinished();
            let known: Vec<(Size, PartPoints)> = files.sizes().collect();
            // Nothing that was complete is lost, and nothing else is believed.
            let complete = campaign.iter().filter(|(_, points)| {
                let written = writes[..killed_after].iter();
                let written = written.filter(|(other, _)| *other == points).count();
                written == points.iter().flatten().count()
            });
            assert_eq!(known.len(), complete.count(), "{killed_after}: {known:?}");
            for (size, points) in &campaign {
                if !known.iter().any(|(other, _)| other == size) {
                    files.add(points, &NO_LACK).expect("a file");
                }
            }
            let again: Vec<_> = open(&folder, "k").expect("the files").sizes().collect();
            let mut whole = campaign.to_vec();
            whole.sort_by_key(|(size, _)| *size);
            assert_eq!(again, whole, "{killed_after}");
        }
    }

    #[test]
    fn a_surface_is_kept_by_its_sides() {
        let folder = tempfile::tempdir().expect("a folder");
        let part = MeasuredPart { stem: "a".to_owned(), ..MeasuredPart::default() };
        let parts = [part];
        let points = [(4, 2), (2, 4), (4, 4)].map(|(m, n)| SurfacePoint { m, n, ..point(m, 3) });
        let mut files =
            PointsFiles::open(Some(folder.path()), FileKind::Surface, &parts).expect("a folder");
        for point in points {
            files.add(&vec![Some(point)], &NO_LACK[..1]).expect("a file");
        }
        let sizes: Vec<Size> = PointsFiles::open(Some(folder.path()), FileKind::Surface, &parts)
            .expect("a file")
            .sizes()
            .map(|(size, _)| size)
            .collect();
        assert_eq!(sizes, [(2, 4), (4, 2), (4, 4)]);
        assert!(folder.path().join("a.surface").exists());
    }
}
