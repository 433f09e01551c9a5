"""The project's scripts: `python -m scripts.FOLDER.NAME`, in the folder of project.yml."""
