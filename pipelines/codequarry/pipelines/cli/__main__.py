"""``python -m codequarry.pipelines.cli``: the command line, as the program ``codequarry`` starts it."""

from codequarry.pipelines.cli.root import run

if __name__ == "__main__":
    run()
