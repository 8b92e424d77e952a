from graphsde.cli import main

main()
