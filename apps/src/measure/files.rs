//! The points files of a campaign: written after every size, and read by the command that goes on with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isochron::Error;
use isochron::output::{DOCUMENT_BYTES, PartialFile};
use isochron_hierarchy::model::{ModelFile, Point};

use crate::devices::points::today;

/// The header that may differ when a campaign goes on.
const DATE: &str = "date";

/// The headers of one rank's file.
pub type Headers = BTreeMap<String, String>;

/// The points of each rank, and the folder of their files.
pub struct PointsFiles {
    /// `None` if nothing is to be written.
    folder: Option<PathBuf>,
    names: Vec<String>,
    files: Vec<ModelFile>,
}

/// The points of one size, by rank; `None` for a rank to which a smaller size was hopeless.
pub type RankPoints = Vec<Option<Point>>;

impl PointsFiles {
    /// Opens the files of all ranks with these headers, each called `stem.points`, with the rank before it if there are
    /// several. Points of an earlier command are read.
    ///
    /// # Errors
    /// [`Error::File`] if the folder cannot be made, or a file cannot be read or was measured in another way.
    pub fn open(folder: Option<&Path>, stem: &str, headers: Vec<Headers>) -> Result<Self, Error> {
        let ranks = headers.len();
        let names = (0..ranks)
            .map(|rank| name_file(ranks, rank, stem))
            .collect();
        let mut opened = Self {
            folder: folder.map(Path::to_path_buf),
            names,
            files: Vec::new(),
        };
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
        }
        for (rank, mut headers) in headers.into_iter().enumerate() {
            let points = match opened.path(rank) {
                Some(path) => read_earlier(&path, &headers)?,
                None => Vec::new(),
            };
            headers.insert(DATE.to_owned(), today());
            opened.files.push(ModelFile { headers, points });
        }
        Ok(opened)
    }

    /// Returns the path of a rank's file.
    pub fn path(&self, rank: usize) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        Some(folder.join(&self.names[rank]))
    }

    /// Drops the sizes that an interrupted command had not written to all files: of a rank that has neither a point there
    /// nor a bound at a smaller size.
    pub fn drop_unfinished(&mut self) {
        let known = self.sizes();
        let unfinished = known.filter(|&(d, ref points)| {
            let ranks = self.files.iter().zip(points);
            let missing = ranks.filter(|(_, point)| point.is_none());
            missing
                .into_iter()
                .any(|(file, _)| !is_hopeless(&file.points, d))
        });
        let unfinished: Vec<u64> = unfinished.map(|(d, _)| d).collect();
        for file in &mut self.files {
            file.points.retain(|point| !unfinished.contains(&point.d));
        }
    }

    /// Returns the points of a rank.
    pub fn points(&self, rank: usize) -> &[Point] {
        &self.files[rank].points
    }

    /// Returns the sizes that any rank has measured, each with the points of all ranks.
    pub fn sizes(&self) -> impl Iterator<Item = (u64, RankPoints)> {
        let mut sizes: BTreeMap<u64, RankPoints> = BTreeMap::new();
        for (rank, file) in self.files.iter().enumerate() {
            for point in &file.points {
                let points = sizes.entry(point.d);
                points.or_insert_with(|| vec![None; self.files.len()])[rank] = Some(*point);
            }
        }
        sizes.into_iter()
    }

    /// Adds the points of a size and writes the files.
    ///
    /// # Errors
    /// Those of the files.
    pub fn add(&mut self, points: &RankPoints) -> Result<(), Error> {
        for (rank, point) in points.iter().enumerate() {
            let Some(point) = point else { continue };
            let measured = &mut self.files[rank].points;
            let at = measured.partition_point(|other| other.d < point.d);
            measured.insert(at, *point);
            if let Some(path) = self.path(rank) {
                let file = PartialFile::create(&path, DOCUMENT_BYTES)?;
                file.fill(&self.files[rank].to_string())?;
            }
        }
        Ok(())
    }
}

/// Returns `true` if a size below `d` was hopeless.
fn is_hopeless(points: &[Point], d: u64) -> bool {
    points.iter().any(|point| point.reps == 0 && point.d < d)
}

fn name_file(ranks: usize, rank: usize, stem: &str) -> String {
    match ranks {
        1 => format!("{stem}.points"),
        _ => format!("rank{rank}-{stem}.points"),
    }
}

/// Reads the points of an earlier command, which had the same headers but for the date; none without a file.
fn read_earlier(path: &Path, headers: &Headers) -> Result<Vec<Point>, Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file(path, error)),
    };
    let file = ModelFile::parse(&text).map_err(|error| Error::file(path, error))?;
    for (key, wanted) in headers {
        let found = file.headers.get(key).map_or("nothing", String::as_str);
        if found != wanted {
            let reason = format!(
                "its points cannot be continued: {key} is {found} there and {wanted} here. Choose another --out, or remove it"
            );
            return Err(Error::file(path, reason));
        }
    }
    Ok(file.points)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(d: u64, reps: u32) -> Point {
        Point {
            d,
            t_s: 0.5,
            reps,
            ci_s: 0.0,
        }
    }

    fn headers(kernel: &str) -> Vec<Headers> {
        let headers = Headers::from([("kernel".to_owned(), kernel.to_owned())]);
        vec![headers; 2]
    }

    #[test]
    fn what_was_measured_is_there_again_unless_a_file_lacks_it() {
        let folder = std::env::temp_dir().join(format!("isochron-files-{}", std::process::id()));
        let open = |kernel| PointsFiles::open(Some(&folder), "k", headers(kernel));
        let mut files = open("k").expect("a folder");
        files
            .add(&vec![Some(point(4, 3)), Some(point(4, 0))])
            .expect("a file");
        files.add(&vec![Some(point(8, 3)), None]).expect("a file");
        files
            .add(&vec![Some(point(2, 3)), Some(point(2, 3))])
            .expect("a file");
        // As if the command were killed between two files.
        files.names.truncate(1);
        files.files.truncate(1);
        files.add(&vec![Some(point(1, 3))]).expect("a file");
        let mut files = open("k").expect("the files");
        files.drop_unfinished();
        let found: Vec<_> = files.sizes().collect();
        let expected = [
            (2, vec![Some(point(2, 3)); 2]),
            (4, vec![Some(point(4, 3)), Some(point(4, 0))]),
            (8, vec![Some(point(8, 3)), None]),
        ];
        assert_eq!(found, expected);
        let refused = open("other")
            .map(|_| ())
            .expect_err("another kernel")
            .to_string();
        std::fs::remove_dir_all(&folder).expect("our folder");
        assert!(
            refused.contains("kernel is k there and other here"),
            "{refused}"
        );
    }
}
