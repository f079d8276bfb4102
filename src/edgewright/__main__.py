"""`python -m edgewright`: the command line, for places that have our package and no script, such as the image."""

from edgewright.cli import main

if __name__ == "__main__":
    main()
