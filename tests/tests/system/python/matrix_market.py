"""Every Matrix Market file that SciPy writes is read as SciPy reads it.

Arguments: the command `isochron`, and a folder for files.
"""

import itertools
import pathlib
import subprocess
import sys

import numpy
import scipy.io
import scipy.sparse

SIZE = 6


def make(kind, symmetry):
    """Returns a matrix of a kind of numbers with a symmetry."""
    random = numpy.random.default_rng(7)
    numbers = random.integers(1, 9, (SIZE, SIZE)).astype(float)
    if kind == "real":
        numbers += random.random((SIZE, SIZE))
    elif kind == "complex":
        numbers = numbers + 1j * random.random((SIZE, SIZE))
    elif kind == "pattern":
        numbers = numpy.ones((SIZE, SIZE))
    lower = numpy.tril(numbers * (random.random((SIZE, SIZE)) < 0.7), -1)
    diagonal = numpy.diag(numbers.diagonal())
    if symmetry == "general":
        whole = lower + diagonal + 2 * lower.T
        whole = (whole != 0).astype(float) if kind == "pattern" else whole
    elif symmetry == "symmetric":
        whole = lower + diagonal + lower.T
    elif symmetry == "skew-symmetric":
        whole = lower - lower.T
    else:
        whole = lower + diagonal.real + lower.T.conj()
    return whole.astype({"integer": "i8", "unsigned": "u8"}.get(kind, whole.dtype))


def write_all(folder):
    """Writes a file of each form, kind and symmetry that SciPy accepts; yields each with its elements."""
    forms = {"array": numpy.asarray, "coordinate": scipy.sparse.coo_array}
    kinds = ["real", "integer", "unsigned", "complex", "pattern"]
    symmetries = ["general", "symmetric", "skew-symmetric", "hermitian"]
    for form, kind, symmetry in itertools.product(forms, kinds, symmetries):
        if kind == "pattern" and (form == "array" or symmetry not in symmetries[:2]):
            continue  # The format has none.
        if kind == "unsigned" and symmetry == "skew-symmetric":
            continue  # Negated numbers have a sign.
        elements = make(kind, symmetry)
        path = folder / f"{form}-{kind}-{symmetry}.mtx"
        field = "pattern" if kind == "pattern" else None
        scipy.io.mmwrite(path, forms[form](elements), comment="of SciPy\n%", field=field, symmetry=symmetry)
        read = scipy.io.mmread(path)
        read = read.toarray() if scipy.sparse.issparse(read) else read
        assert numpy.allclose(read, elements), path
        yield path, elements


def main(isochron, folder):
    written = list(write_all(pathlib.Path(folder)))
    heads = {path.read_text().splitlines()[0] for path, _ in written}
    assert len(heads) >= 24, heads
    for (a_path, a), (b_path, b) in zip(written[::2], written[1::2]):
        out = pathlib.Path(folder) / "c.npy"
        run = subprocess.run(
            [isochron, "mxm", "--a", a_path, "--b", b_path, "--out", out, "--quiet", "--store", "none",
             "--strategy", "homogeneous"],
            capture_output=True, text=True, timeout=300,
        )
        assert run.returncode == 0, (a_path, b_path, run.stderr)
        found = numpy.load(out)
        assert numpy.allclose(found, a @ b, rtol=1e-13), (a_path, b_path, found, a @ b)
        out.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
